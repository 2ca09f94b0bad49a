"""The picture of README.md: `python picture.py [FILE.svg]` fits the beetles of Bliss (1935) and draws the curve that follows from the posterior."""

import sys

import pandas as pd

import certus

beetles = pd.DataFrame({
    "dose": [1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839],
    "killed": [6, 13, 18, 28, 52, 53, 61, 60],
    "beetles": [59, 60, 62, 56, 63, 59, 62, 60],
})
fit = certus.binomial("killed ~ dose", data=beetles, trials="beetles").fit()
doses = [round(1.68 + 0.005 * k, 3) for k in range(43)]
curve = fit.effects(beetles, at={"dose": doses})
error = curve["error"].max()
print(fit)
print(f"every point of the curve is within {error:.4f} of the posterior mean, with probability {1 - curve.attrs['delta']:.4f}")
assert fit.certificate.gap.level == "proved" and error < 0.01

# Places on the canvas: doses from 1.67 to 1.90, shares from 0 to 1.
WIDTH, HEIGHT, LEFT, TOP, ACROSS, DOWN = 720, 380, 70, 44, 620, 270
across = lambda dose: f"{LEFT + (dose - 1.67) / 0.23 * ACROSS:.1f}"
down = lambda share: f"{TOP + (1 - share) * DOWN:.1f}"
line = lambda x, y: " ".join(f"{across(a)},{down(b)}" for a, b in zip(x, y))

svg = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="Helvetica, Arial, sans-serif" font-size="14">',
    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    f'<text x="{LEFT}" y="26" font-size="16" fill="#222">Share of beetles killed by carbon disulphide</text>',
]
for share in (0, 0.25, 0.5, 0.75, 1):
    svg.append(f'<line x1="{LEFT}" x2="{LEFT + ACROSS}" y1="{down(share)}" y2="{down(share)}" stroke="#ddd"/>')
    svg.append(f'<text x="{LEFT - 10}" y="{down(share)}" dy="5" text-anchor="end" fill="#555">{100 * share:.0f} %</text>')
for dose in (1.70, 1.75, 1.80, 1.85, 1.90):
    svg.append(f'<text x="{across(dose)}" y="{TOP + DOWN + 22}" text-anchor="middle" fill="#555">{dose:.2f}</text>')
svg.append(f'<text x="{LEFT + ACROSS / 2:.0f}" y="{TOP + DOWN + 46}" text-anchor="middle" fill="#222">dose, log10 of mg per litre</text>')
band = line(doses, curve["conf_low"]) + " " + line(doses[::-1], curve["conf_high"][::-1])
svg.append(f'<polygon points="{band}" fill="#9ecae1" fill-opacity="0.6"/>')
svg.append(f'<polyline points="{line(doses, curve["estimate"])}" fill="none" stroke="#08519c" stroke-width="2.5"/>')
for row in beetles.itertuples():
    svg.append(f'<circle cx="{across(row.dose)}" cy="{down(row.killed / row.beetles)}" r="5" fill="#222"/>')
legend = LEFT + 24
svg += [
    f'<circle cx="{legend}" cy="{TOP + 13}" r="5" fill="#222"/>',
    f'<text x="{legend + 22}" y="{TOP + 18}" fill="#222">observed (Bliss 1935)</text>',
    f'<line x1="{legend - 12}" x2="{legend + 12}" y1="{TOP + 34}" y2="{TOP + 34}" stroke="#08519c" stroke-width="2.5"/>',
    f'<text x="{legend + 22}" y="{TOP + 39}" fill="#222">posterior mean</text>',
    f'<rect x="{legend - 12}" y="{TOP + 48}" width="24" height="14" fill="#9ecae1" fill-opacity="0.6"/>',
    f'<text x="{legend + 22}" y="{TOP + 60}" fill="#222">90 % interval</text>',
    "</svg>",
]
with open(sys.argv[1] if len(sys.argv) > 1 else "beetles.svg", "w", encoding="utf-8") as file:
    file.write("\n".join(svg) + "\n")
