#!/usr/bin/env python3
"""Checks a certificate of certus, from docs/certificate-format.md alone; standard library only.

    check_certificate.py FILE.proof FILE.rows     exit codes: 0 proved, 1 not proved, 2 not checkable
    check_certificate.py --corpus DIRECTORY [SECONDS]
        judges true-NUMBER-*.proof and false-NUMBER-*.proof in the order of their numbers, until so many seconds of
        processor time are over; 1 if one is judged wrongly

Section 5 of the document is computed in exact rational numbers. Rows are summed in decimals of 50 digits; wherever these
are not exact, 1e-28 of the sizes involved is allowed for, which is 10^15 times more than their rounding errors: fewer
than 10^5 operations are chained, on numbers below 10^12 of those sizes (checked), each wrong by 10^-49 of itself.
"""

import hashlib
import math
import struct
import sys
import time
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path
from unicodedata import category

getcontext().prec = 50
getcontext().Emax = 10**6
getcontext().Emin = -(10**6)
SMALL = Decimal("1e-28")
PI = Decimal("3.14159265358979323846264338327950288419716939937510")
TWO_PI = 2 * PI


class NotProved(Exception):
    pass


class NotCheckable(Exception):
    pass


def require(holds, why):
    if not holds:
        raise NotProved(why)


class Lines:
    """The lines of the file, each with the key that must come next."""

    def __init__(self, text):
        self.lines = text.split("\n")
        self.at = 0

    def peek(self):
        words = self.lines[self.at].split() if self.at < len(self.lines) else []
        return words[0] if words else ""

    def words(self, key):
        require(self.at < len(self.lines), f"{key} is missing")
        words = self.lines[self.at].split()
        self.at += 1
        require(words and words[0] == key, f"line {self.at}: {key} is expected")
        return words[1:]

    def word(self, key):
        words = self.words(key)
        require(len(words) == 1, f"line {self.at}: one value is expected")
        return words[0]

    def whole(self, key):
        return self.as_whole(self.word(key))

    def as_whole(self, word):
        require(word.isascii() and word.isdigit() and int(word) < 2**48, f"line {self.at}: a whole number is expected")
        return int(word)

    def number(self, word):
        try:
            value = float(word) if word.isascii() and "_" not in word else math.nan
        except ValueError:
            value = math.nan
        require(abs(value) <= 1e50, f"line {self.at}: {word} is not a number")
        return value

    def numbers(self, key, count):
        words = self.words(key)
        require(len(words) == count, f"line {self.at}: {count} values are expected")
        return [self.number(word) for word in words]

    def one(self, key):
        return self.numbers(key, 1)[0]

    def triangle(self, key, d):
        return [self.numbers(key, i + 1) for i in range(d)]

    def hash(self, key):
        return self.as_hash(self.word(key))

    def as_hash(self, word):
        require(len(word) == 64 and all(c in "0123456789abcdefABCDEF" for c in word), f"line {self.at}: a hash")
        return bytes.fromhex(word)


def rows_of_triangle(flat, d):
    return [flat[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2] for i in range(d)]


def read_model(lines, p):
    """The lines on the model, which all claims have."""
    p["likelihood"] = lines.word("likelihood")
    if p["likelihood"] not in ("linear", "logistic", "binomial", "poisson"):
        raise NotCheckable("another likelihood")
    p["sd"] = lines.one("sd") if p["likelihood"] == "linear" else 1.0
    d = p["d"] = lines.whole("dimension")
    if not 1 <= d <= 512:
        raise NotCheckable("too many coefficients")
    word = lines.word("intercept")
    require(word in ("yes", "no"), "intercept is yes or no")
    p["intercept"] = word == "yes"
    p["columns"] = []
    for _ in range(d - p["intercept"]):
        words = lines.words("column")
        require(len(words) == 3, "a column has a name and two numbers")
        p["columns"].append((lines.number(words[1]), lines.number(words[2])))
    p["prior_mean"] = lines.numbers("prior-mean", d)
    if lines.peek() == "prior-diagonal":
        diagonal = lines.numbers("prior-diagonal", d)
        p["J"] = [[diagonal[i] if i == j else 0.0 for j in range(d)] for i in range(d)]
        require(all(j >= 0 for j in diagonal), "J >= 0")
    else:
        p["J"] = [lines.numbers("prior-row", d) for _ in range(d)]
        j_matrix = [[Fraction(x) for x in row] for row in p["J"]]
        require(all(j_matrix[i][k] == j_matrix[k][i] for i in range(d) for k in range(d)), "J is symmetric")
        trace = sum(j_matrix[i][i] for i in range(d))
        least = least_eigenvalue(j_matrix, Fraction(0), Fraction(float(trace) * 1e-12))
        require(least is not None and least >= 0, "J is positive")
    require(p["sd"] > 0, "sd > 0")
    require(all(scale > 1e-50 for _, scale in p["columns"]), "scale > 1e-50")
    return d


def read(text):
    """Section 2."""
    lines = Lines(text)
    p = {}
    blank = (c for c in text.replace("\r\n", "\n") if c.isspace() or category(c) == "Cc")
    require(all(c in " \t\n" for c in blank), "only spaces and tabs are blanks")
    version = lines.words("certus-proof")
    require(len(version) > 0, "no version")
    if version != ["1"]:
        raise NotCheckable("another version")
    p["claim"] = lines.word("claim")
    if p["claim"] not in ("gap-of-all-gaussians", "kl-from-linear-posterior", "sd-interval", "posterior-moments", "variance-maximum"):
        raise NotCheckable("another claim")
    if p["claim"] == "variance-maximum":
        return read_mixed(lines, p)
    if p["claim"] == "posterior-moments":
        return read_draws(text, lines, p)
    if p["claim"] == "sd-interval":
        return read_sd(lines, p)
    p["bound"] = lines.one("bound")
    d = read_model(lines, p)
    p["rows"] = lines.whole("rows")
    p["block_rows"] = lines.whole("block-rows")
    if not 1 <= p["block_rows"] <= 2**20:
        raise NotCheckable("blocks of another size")
    p["root"] = lines.hash("root")
    p["mean"] = lines.numbers("mean", d)
    p["factor"] = lines.triangle("factor-row", d)
    if lines.word("theorem") != "D":
        raise NotCheckable("another theorem")
    for key in ("radius", "tau", "theta", "lambda-mean", "lambda-factor"):
        p[key] = lines.one(key)
    p["x"] = lines.numbers("solution-mean", d)
    p["X"] = lines.triangle("solution-row", d)
    p["blocks"] = []
    for _ in range(-(-p["rows"] // p["block_rows"])):
        block = {"hash": lines.hash("block")}
        for k, key in enumerate(("gradient", "curvature", "lower-mean", "lower-factor")):
            flat = lines.numbers(key, 1 + (d * (d + 1) // 2 if k else d))
            block[key] = (flat[0], flat[1:])
        p["blocks"].append(block)
    require(lines.words("end") == [], "end has no values")
    require(all(not line.strip() for line in lines.lines[lines.at :]), "nothing may follow end")
    for holds, what in (
        (p["claim"] == "gap-of-all-gaussians" or p["likelihood"] == "linear", "only a linear model has a Gaussian posterior"),
        (p["bound"] > 0, "bound > 0"),
        (all(row[-1] > 0 for row in p["factor"]), "the diagonal of the factor is positive"),
        (0 < p["radius"] < p["tau"], "0 < r < tau"),
        (p["theta"] > 0 and p["lambda-mean"] > 0 and p["lambda-factor"] >= 0, "theta and lambdas"),
        (all(b[k][0] >= 0 for b in p["blocks"] for k in b if k != "hash"), "radii are not negative"),
    ):
        require(holds, what)
    return p


def tree(hashes):
    level = list(hashes)
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + a[0] + a[1]).digest() if len(a) == 2 else a[0] for a in pairs]
    return level[0] if level else hashlib.sha256(b"").digest()


# Section 5, in rational numbers


def root_above(x):
    """A rational number that is at least the square root of x >= 0."""
    if x == 0:
        return Fraction(0)
    shift = 0
    # about 100 bits
    size = x.numerator.bit_length() - x.denominator.bit_length()
    shift = 100 - size // 2
    scaled = x * Fraction(4) ** shift
    return Fraction(math.isqrt(math.ceil(scaled)) + 1) / Fraction(2) ** shift


def norm_above(values):
    return root_above(sum((v * v for v in values), Fraction(0)))


def flat(matrix):
    return [x for row in matrix for x in row]


def product(a, b):
    columns = list(zip(*b))
    return [[sum((x * y for x, y in zip(row, column)), Fraction(0)) for column in columns] for row in a]


def full(triangle, d):
    return [[Fraction(triangle[max(i, j)][min(i, j)]) for j in range(d)] for i in range(d)]


def least_eigenvalue(h, radius, hint):
    """hint - |H - hint I - LL'| - radius, or None."""
    d = len(h)
    a = [[float(h[i][j] - (hint if i == j else 0)) for j in range(d)] for i in range(d)]
    l = [[0.0] * d for _ in range(d)]
    for j in range(d):
        for i in range(j, d):
            left = a[i][j] - sum(l[i][k] * l[j][k] for k in range(j))
            if i == j:
                if not left > 0:
                    return None
                l[i][i] = math.sqrt(left)
            else:
                l[i][j] = left / l[j][j]
    exact = [[Fraction(x) for x in row] for row in l]
    square = product(exact, [list(column) for column in zip(*exact)])
    rest = [h[i][j] - (hint if i == j else 0) - square[i][j] for i in range(d) for j in range(d)]
    return hint - norm_above(rest) - radius


def prove(p):
    d = p["d"]
    c_matrix = [[Fraction(p["factor"][i][j]) if j <= i else Fraction(0) for j in range(d)] for i in range(d)]
    transposed = [list(column) for column in zip(*c_matrix)]
    j_matrix = [[Fraction(x) for x in row] for row in p["J"]]
    prior = product(transposed, product(j_matrix, c_matrix))
    away = [[Fraction(m) - Fraction(mu)] for m, mu in zip(p["mean"], p["prior_mean"])]
    prior_slope = flat(product(transposed, product(j_matrix, away)))

    def total(key, count):
        sums, radius = [Fraction(0)] * count, Fraction(0)
        for block in p["blocks"]:
            radius += Fraction(block[key][0])
            sums = [a + Fraction(b) for a, b in zip(sums, block[key][1])]
        return sums, radius

    gradient, g_rad = total("gradient", d)
    g = [a + b for a, b in zip(gradient, prior_slope)]
    matrices = []
    for key in ("curvature", "lower-mean", "lower-factor"):
        sums, radius = total(key, d * (d + 1) // 2)
        whole = full(rows_of_triangle(sums, d), d)
        matrices.append(([[whole[i][j] + prior[i][j] for j in range(d)] for i in range(d)], radius))
    (s, s_rad), (h_m, m_rad), (h_c, c_rad) = matrices
    s = [[s[i][j] - (i == j) for j in range(d)] for i in range(d)]
    r, tau = Fraction(p["radius"]), Fraction(p["tau"])
    c = 1 / (1 + r / tau) ** 2
    least_m = least_eigenvalue(h_m, m_rad, Fraction(p["lambda-mean"]))
    require(least_m is not None and least_m > 0, "lambda-mean is not proved")
    least_h = Fraction(0)
    if p["lambda-factor"] > 0:
        least_h = least_eigenvalue(h_c, c_rad, Fraction(p["lambda-factor"]))
        require(least_h is not None and least_h >= 0, "lambda-factor is not proved")
    least_c = least_h + c
    x = [Fraction(v) for v in p["x"]]
    hx = flat(product(h_m, [[v] for v in x]))
    u = [a - b for a, b in zip(g, hx)]
    x_norm = norm_above(x)
    u_rad = g_rad + m_rad * x_norm
    rho = sum((a + b) * v for a, b, v in zip(g, u, x)) + (g_rad + u_rad) * x_norm
    rho += (norm_above(u) + u_rad) ** 2 / least_m
    big = full(p["X"], d)
    hx = product(h_c, big)
    x_norm = norm_above(flat(big))
    rest = [s[i][j] - (hx[i][j] + hx[j][i]) / 2 - c * big[i][j] for i in range(d) for j in range(d)]
    rest_rad = s_rad + c_rad * x_norm
    rho += sum((a + b) * v for a, b, v in zip(flat(s), rest, flat(big))) + (s_rad + rest_rad) * x_norm
    rho += (norm_above(rest) + rest_rad) ** 2 / least_c
    limit = r * r * min(least_m, least_c / tau**2)
    require(rho <= limit, f"rho^2 = {float(rho):.6e} is above {float(limit):.6e}")
    require(rho / 2 <= Fraction(p["bound"]), f"only {float(rho / 2):.9e} is proved")
    return float(rho / 2)


# Sections 3, 4 and 6, in decimals


class Rule:
    """Nodes and weights for row sds up to a limit, with the error of section 6; ends at 12."""

    END = 12

    def __init__(self, most):
        a = min(Decimal("2.5") / most, Decimal(6)) * (1 - SMALL)
        step = Decimal(1)
        growth = 6 * (4 + 2 * a**2 + a**4) * (a**2 / 2).exp()
        while growth / ((TWO_PI * a / step).exp() - 1) > Decimal("1e-30"):
            step /= 2
        self.error = growth / ((TWO_PI * a / step).exp() - 1)
        end = Decimal(self.END)
        density = (-(end**2) / 2).exp() / TWO_PI.sqrt()
        # the largest of the five integrals, twice
        self.error += 2 * density * (end**3 + 3 * end + 3 / end)
        count = int(end / step)
        self.nodes = []
        for j in range(-count, count + 1):
            x = j * step
            self.nodes.append((x, step * (-(x**2) / 2).exp() / TWO_PI.sqrt()))


RULES = {}


def rule(s):
    """For sds up to a power of two."""
    power = max(-2, math.ceil(math.log2(float(s))) if s > 0 else -2)
    while Decimal(2) ** power < s:
        power += 1
    if power > 7:
        raise NotCheckable("the sd of a predictor is above 128")
    if power not in RULES:
        RULES[power] = Rule(Decimal(2) ** power)
    return RULES[power]


def moments(p, y, trials, c, s):
    """E phi' and E phi'' x^k, k = 0 ... 4, and an allowance for each of them."""
    if not (abs(c) < 10**6 and s < 10**6):
        raise NotCheckable("a predictor is too large")
    if p["likelihood"] == "linear":
        precision = 1 / Decimal(p["sd"]) ** 2
        return (c - y) * precision, [precision, 0, precision, 0, 3 * precision], SMALL * precision * (1 + abs(c) + abs(y))
    if p["likelihood"] == "poisson":
        rate = (c + s * s / 2).exp()
        powers = [1, s, 1 + s**2, 3 * s + s**3, 3 + 6 * s**2 + s**4]
        return rate - y, [rate * power for power in powers], SMALL * (y + rate * (1 + abs(c) + s) ** 5)
    used = rule(s)
    slope, curvature = Decimal(0), [Decimal(0)] * 5
    for x, weight in used.nodes:
        e = (-abs(c + s * x)).exp()
        b = 1 / (1 + e)
        slope += weight * (b if c + s * x >= 0 else e * b)
        term = weight * e * b * b
        for k in range(5):
            curvature[k] += term
            term *= x
    return trials * slope - y, [trials * v for v in curvature], (1 + trials) * (used.error + SMALL)


def legal(likelihood, y, trials):
    """Section 1: what a response may be."""
    whole = y >= 0 and y == int(y)
    return {
        "linear": trials == 1,
        "logistic": trials == 1 and y in (0, 1),
        "poisson": trials == 1 and whole,
        "binomial": whole and trials == int(trials) and y <= trials,
    }[likelihood]


def sums(p, data, count):
    """G, A, M and K of a block with their radii: section 4."""
    d, width = p["d"], len(p["columns"]) + 4
    kappa = 0 if p["likelihood"] == "linear" else 1
    r, tau, theta = (Decimal(p[key]) for key in ("radius", "tau", "theta"))
    columns = [(Decimal(centre), Decimal(scale)) for centre, scale in p["columns"]]
    mean = [Decimal(m) for m in p["mean"]]
    factor = [[Decimal(x) for x in row] for row in p["factor"]]
    row_sizes = [sum(abs(x) for x in row) for row in factor]
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    parts = [[Decimal(0)] * d] + [[Decimal(0)] * len(pairs) for _ in range(3)]
    radii = [Decimal(0)] * 4
    for n in range(count):
        row = struct.unpack_from(f"<{width}d", data, 8 * width * n)
        require(all(abs(v) <= 1e50 for v in row), "a row has a number that it must not have")
        y, trials, offset, weight = (Decimal(v) for v in row[-4:])
        require(legal(p["likelihood"], y, trials) and weight >= 0, "a row has a response or weight that it must not have")
        v = [Decimal(1)] if p["intercept"] else []
        v += [(Decimal(x) - centre) / scale for x, (centre, scale) in zip(row, columns)]
        c = offset + sum(a * m for a, m in zip(v, mean))
        a = [sum(v[i] * factor[i][j] for i in range(j, d)) for j in range(d)]
        s = sum(x * x for x in a).sqrt()
        # c and the entries of a are exact but for 1e-47 of these; how much smaller c and s are than them is limited
        size_c, size_a = 1 + abs(offset) + sum(abs(x * m) for x, m in zip(v, mean)), sum(abs(x) * w for x, w in zip(v, row_sizes))
        if size_c > 10**12 or size_a > 10**12 * (1 if s == 0 else min(1, s)) and s != 0:
            raise NotCheckable("cancellation in a predictor")
        slope, curvature, allowed = moments(p, y, trials, c, s)
        allowed += SMALL * (1 + abs(curvature[0])) * (1 + trials)
        e, p_k = weight * slope, [weight * q for q in curvature]
        wrong = weight * allowed
        delta = kappa * r * s / tau**2
        shrink = (-kappa * r * s).exp()
        q0, q1, q2 = (shrink * (p_k[k] - delta / 2 * p_k[k + 2]) for k in range(3))
        q1 = abs(q1)
        low = ((q0 + q2) / 2 - (((q0 - q2) / 2) ** 2 + q1**2).sqrt()) / 2
        k_m = k_c = Decimal(0)
        if low > 0:
            own = theta if q1 == 0 else max(min(theta, (q0 - low) / q1), q1 / (q2 - low))
            if Decimal("1e-9") < own < Decimal("1e9"):
                # all of the moments of the row may be wrong by what is allowed
                slack = wrong * (4 + delta) * (1 + own + 1 / own)
                k_m, k_c = q0 - own * q1 - slack, min(q0, q2 - q1 / own) - slack
            if k_m < 0 or k_c < 0:
                k_m = k_c = Decimal(0)
        for i in range(d):
            parts[0][i] += e * a[i]
        outer = [a[i] * a[j] for i, j in pairs]
        for k, weight_k in ((1, p_k[0]), (2, k_m), (3, k_c)):
            target = parts[k]
            for at, value in enumerate(outer):
                target[at] += weight_k * value
            radii[k] += s * s * (wrong + SMALL * abs(weight_k))
        radii[0] += s * (wrong + SMALL * abs(e))
    return parts, radii


def check_block(p, block, data, count):
    require(hashlib.sha256(b"\x00" + data).digest() == block["hash"], "a block has another hash")
    parts, radii = sums(p, data, count)
    d = p["d"]
    for k, key in enumerate(("gradient", "curvature", "lower-mean", "lower-factor")):
        radius, stated = block[key]
        differences = [a - Decimal(b) for a, b in zip(parts[k], stated)]
        twice = [1] * d if k == 0 else [1 if i == j else 2 for i in range(d) for j in range(i + 1)]
        apart = sum(t * x * x for t, x in zip(twice, differences)).sqrt() * (1 + SMALL) + radii[k]
        require(apart <= Decimal(radius), f"{key} of a block is {float(apart):.3e} away, and {radius:.3e} is stated")


# Section 10: the sd of an effect


def read_sd(lines, p):
    p["between"] = lines.numbers("sd-between", 2)
    d = read_model(lines, p)
    if p["likelihood"] not in ("logistic", "binomial"):
        raise NotCheckable("another likelihood")
    p["rows"], groups = lines.whole("rows"), lines.whole("groups")
    p["root"] = lines.hash("root")
    p["factor"] = lines.triangle("factor-row", d)
    if lines.word("theorem") != "K3":
        raise NotCheckable("another theorem")
    p["radius"], p["lambda"] = lines.one("radius"), lines.one("lambda")
    p["points"] = []
    for name in ("inside", "upper") if p["between"][0] == 0 else ("inside", "upper", "lower"):
        p["points"].append((lines.one(name + "-sd"), lines.numbers(name + "-mean", d)))
    p["blocks"], found = [], 0
    while found < groups:
        words = lines.words("block")
        require(len(words) == 2, "a block has a hash and a number of groups")
        block = {"hash": lines.as_hash(words[0]), "groups": [], "ends": []}
        for _ in range(lines.as_whole(words[1])):
            group = {"rows": lines.whole("group"), "integrals": []}
            for _ in p["points"]:
                words = lines.words("integral")
                require(len(words) == 9, "an integral has nine values")
                group["integrals"].append([lines.number(w) for w in words[:5]] + [lines.as_whole(w) for w in words[5:]])
            block["groups"].append(group)
        found += len(block["groups"])
        for _ in p["points"][1:]:
            end = [lines.numbers("gradient", 1 + d), lines.numbers("curvature", 1 + d * (d + 1) // 2)]
            block["ends"].append([(stated[0], stated[1:]) for stated in end])
        p["blocks"].append(block)
    require(lines.words("end") == [], "end has no values")
    require(all(not line.strip() for line in lines.lines[lines.at :]), "nothing may follow end")
    sizes = [group["rows"] for block in p["blocks"] for group in block["groups"]]
    (low, high), sds = p["between"], [sd for sd, _ in p["points"]]
    for holds, what in (
        (len(sizes) == groups and sum(sizes) == p["rows"], "so many rows and groups"),
        (0 <= low < high, "an interval"),
        (sds[0] < high and (sds[0] > low or low == sds[0] == 0), "a point inside"),
        (sds[1] == high and (low == 0 or sds[2] == low), "points at the ends"),
        (all(row[-1] > 0 for row in p["factor"]), "the diagonal of the factor is positive"),
        (p["radius"] > 0 and p["lambda"] > 0, "radius and lambda are positive"),
        (all(size > 0 for size in sizes), "every group has a row"),
        (all(sum(g["rows"] for g in b["groups"]) <= 2**20 for b in p["blocks"]), "short blocks"),
        (all(s[0] >= 0 for b in p["blocks"] for end in b["ends"] for s in end), "radii are not negative"),
        (all(i[0] >= 0 for b in p["blocks"] for g in b["groups"] for i in g["integrals"]), "radii are not negative"),
    ):
        require(holds, what)
    return p


def prove_sd(p):
    """The least of the differences at the ends, in rational numbers."""
    d, margins = p["d"], []
    c_matrix = [[Fraction(p["factor"][i][j]) if j <= i else Fraction(0) for j in range(d)] for i in range(d)]
    transposed = [list(column) for column in zip(*c_matrix)]
    j_matrix = [[Fraction(x) for x in row] for row in p["J"]]
    prior = product(transposed, product(j_matrix, c_matrix))
    groups = [group["integrals"] for block in p["blocks"] for group in block["groups"]]
    for end in range(1, len(p["points"])):
        gain = Fraction(0)
        for integrals in groups:
            gain += Fraction(integrals[end][1]) - Fraction(integrals[0][1])
            gain -= Fraction(integrals[end][0]) + Fraction(integrals[0][0])
        b, a, mu = ([Fraction(x) for x in v] for v in (p["points"][end][1], p["points"][0][1], p["prior_mean"]))
        gain += sum(j_matrix[i][j] * (b[i] - a[i]) * (b[j] + a[j] - 2 * mu[j]) for i in range(d) for j in range(d)) / 2
        away = product(j_matrix, [[b[j] - mu[j]] for j in range(d)])
        gradient, curvature = flat(product(transposed, away)), [Fraction(0)] * (d * (d + 1) // 2)
        g_rad = k_rad = Fraction(0)
        for block in p["blocks"]:
            (r1, slope), (r2, bend) = block["ends"][end - 1]
            gradient = [a + Fraction(b) for a, b in zip(gradient, slope)]
            curvature = [a + Fraction(b) for a, b in zip(curvature, bend)]
            g_rad, k_rad = g_rad + Fraction(r1), k_rad + Fraction(r2)
        whole = full(rows_of_triangle(curvature, d), d)
        whole = [[whole[i][j] + prior[i][j] for j in range(d)] for i in range(d)]
        least = least_eigenvalue(whole, k_rad, Fraction(p["lambda"]))
        require(least is not None and least > 0, "lambda is not proved")
        steep = norm_above(gradient) + g_rad
        require(2 * steep < least * Fraction(p["radius"]), "the gradient asks for a larger radius")
        margins.append(gain - steep**2 / (2 * least))
    require(all(margin > 0 for margin in margins), "the objective is not proved to be lower at an end")
    return float(min(margins))


def integral_of(rows, origin, step, height, below, above, inner):
    """-log of the integral with its error; and nodes, terms, errors of their sums, and the share of the interval."""
    grain = Decimal(2) ** 30
    legal = step > 0 and height > 0 and all(x * grain == int(x * grain) for x in (origin, step))
    legal = legal and abs(origin) + step * max(below, above) <= 2**20 and inner[0] <= below and inner[1] <= above
    require(legal, "the nodes are not legal")
    nodes = [origin + k * step for k in range(-below, above + 1)]
    psi, slope = [u * u / 2 for u in nodes], list(nodes)
    size = Decimal(1)
    for row in rows:
        for k, u in enumerate(nodes):
            t = row["t"] + row["s"] * u
            e = (-abs(t)).exp()
            sigma = 1 / (1 + e) if t >= 0 else e / (1 + e)
            psi[k] += row["w"] * (row["n"] * ((1 + e).ln() + max(t, Decimal(0))) - row["y"] * t)
            slope[k] += row["w"] * row["s"] * (row["n"] * sigma - row["y"])
            row["slopes"].append(row["n"] * sigma - row["y"])
            row["sigmas"].append(sigma)
        size += row["w"] * row["n"] * (1 + abs(row["t"]) + abs(row["s"]) * (abs(origin) + step * max(below, above)))
    if size > 10**12:
        raise NotCheckable("a group is too large")
    # what 50 digits leave of psi and of its slope
    wrong = SMALL * size * size
    terms = [(psi[below] - x).exp() for x in psi]
    total = step * sum(terms)
    largest = max(abs(row["s"]) for row in rows)
    require(largest * height <= 2, "the strip is too high")
    loss = Decimal("0.154") * height**2 * sum(row["w"] * row["n"] * row["s"] ** 2 for row in rows) + height**2 / 2
    # at the best node, relative to e^-psi at the origin
    growth = min((abs(q) + wrong) ** 2 / 2 - x for q, x in zip(slope, psi)) + psi[below]
    turns = TWO_PI * height / step
    strip = 2 * TWO_PI.sqrt() * (loss + growth + 2 * wrong).exp() / (turns.exp() - 1) * (1 + SMALL)
    tails = Decimal(0)
    for k, outward in ((0, -1), (-1, 1)):
        down = outward * slope[k] - wrong
        require(down > 0, "the nodes end too early")
        tails += step * terms[k] * (1 + 2 * wrong) / ((step * down).exp() - 1) * (1 + SMALL)
    error = (strip + tails) / total + 4 * wrong
    require(error < Decimal("0.05"), "the integral is not enclosed")
    share = Decimal(1)
    for k, outward in ((below - inner[0], -1), (below + inner[1], 1)):
        down = outward * slope[k] - wrong
        share = share - terms[k] / down / total if down > 0 else Decimal(0)
    share = max(share - 4 * error, Decimal(0))
    return psi[below] - total.ln(), 2 * error + wrong, terms, share


def check_sd_block(p, k, data, first):
    block, d = p["blocks"][k], p["d"]
    require(hashlib.sha256(b"\x00" + data).digest() == block["hash"], "a block has another hash")
    width = len(p["columns"]) + 6
    columns = [(Decimal(centre), Decimal(scale)) for centre, scale in p["columns"]]
    factor = [[Decimal(x) for x in row] for row in p["factor"]]
    radius = Decimal(p["radius"])
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    for at, (sd, mean) in enumerate(p["points"]):
        gradient, curvature = [Decimal(0)] * d, [Decimal(0)] * len(pairs)
        rads = [Decimal(0)] * 2
        row_number = 0
        for number, group in enumerate(block["groups"]):
            rows = []
            for _ in range(group["rows"]):
                values = struct.unpack_from(f"<{width}d", data, 8 * width * row_number)
                row_number += 1
                require(all(abs(v) <= 1e50 for v in values), "a row has a number that it must not have")
                z, own, y, trials, offset, weight = (Decimal(v) for v in values[-6:])
                require(own == first + number, "a row belongs to another group")
                require(legal(p["likelihood"], y, trials) and weight >= 0, "a row has a response or weight that it must not have")
                v = [Decimal(1)] if p["intercept"] else []
                v += [(Decimal(x) - centre) / scale for x, (centre, scale) in zip(values, columns)]
                t = offset + sum(a * Decimal(m) for a, m in zip(v, mean))
                a = [sum(v[i] * factor[i][j] for i in range(j, d)) for j in range(d)]
                if sum(abs(x) for x in v) * (1 + sum(abs(Decimal(m)) for m in mean)) + abs(offset) > 10**12:
                    raise NotCheckable("a predictor is too large")
                row = {"t": t, "s": Decimal(sd) * z, "y": y, "n": trials, "w": weight, "a": a}
                rows.append(row | {"slopes": [], "sigmas": []})
            rad, stated, origin, step, height, below, above, *inner = group["integrals"][at]
            nodes = (Decimal(origin), Decimal(step), Decimal(height), below, above, inner)
            value, error, terms, share = integral_of(rows, *nodes)
            require(abs(value - Decimal(stated)) + error <= Decimal(rad), "an integral is not proved to be as stated")
            if at == 0:
                continue
            total, moved = sum(terms), Decimal(0)
            b, spread = [Decimal(0)] * d, Decimal(0)
            for row in rows:
                norm = sum(x * x for x in row["a"]).sqrt()
                reach = norm * radius
                moved += row["w"] * row["n"] * reach
                inside = [row["sigmas"][node] for node in (below - inner[0], below + inner[1])]
                row["least"] = row["w"] * row["n"] * min(s * (1 - s) for s in inside) * (-reach).exp()
                slope = row["w"] * sum(q * s for q, s in zip(terms, row["slopes"])) / total
                gradient = [g + slope * x for g, x in zip(gradient, row["a"])]
                rads[0] += norm * (row["w"] * row["n"] * 6 * error + SMALL)
                b = [g + row["least"] * row["s"] * x for g, x in zip(b, row["a"])]
                spread += row["least"] * row["s"] ** 2
                rads[1] += norm**2 * row["w"] * row["n"] * SMALL * (1 + abs(row["s"])) ** 2
            share *= (-moved).exp()
            for row in rows:
                for place, (i, j) in enumerate(pairs):
                    curvature[place] += share * row["least"] * row["a"][i] * row["a"][j]
            for place, (i, j) in enumerate(pairs):
                curvature[place] -= share * b[i] * b[j] / (1 + spread)
        if at == 0:
            continue
        for own, mine, (rad, stated) in zip((gradient, curvature), rads, block["ends"][at - 1]):
            twice = [1] * d if own is gradient else [1 if i == j else 2 for i, j in pairs]
            apart = sum(t * (x - Decimal(y)) ** 2 for t, x, y in zip(twice, own, stated)).sqrt() * (1 + SMALL) + mine
            require(apart <= Decimal(rad), f"sums of a block are {float(apart):.3e} away, and {rad:.3e} is stated")


def check_sd(p, rows):
    require(tree(block["hash"] for block in p["blocks"]) == p["root"], "another root")
    margin = prove_sd(p)
    width = 8 * (len(p["columns"]) + 6)
    require(len(rows) == width * p["rows"], "another number of rows")
    first = begin = 0
    for k, block in enumerate(p["blocks"]):
        length = width * sum(group["rows"] for group in block["groups"])
        check_sd_block(p, k, rows[begin : begin + length], first)
        first, begin = first + len(block["groups"]), begin + length
    return p, margin


# Section 13: means and sds of the posterior, from draws. Fixed point with PLACES binary digits; SLACK of it is allowed for

PLACES = 110
ONE = 1 << PLACES
SLACK = 2.0**-48


def log_of_two():
    total, k = 0, 1
    while ONE << 20 >> k:
        total += (ONE << 20 >> k) // k
        k += 1
    return total >> 20


LOG_2 = log_of_two()


def fixed(x):
    x = Fraction(x)
    return (x.numerator << PLACES) // x.denominator


def exp_fixed(t):
    """e^t within 2^-80 of itself and 2^-100."""
    k, r = divmod(t, LOG_2)
    if k < -PLACES:
        return 0
    if k > 400:
        raise NotCheckable("an exponential is too large")
    r >>= 8
    total = term = ONE
    for j in range(1, 15):
        term = (term * r >> PLACES) // j
        total += term
    for _ in range(8):
        total = total * total >> PLACES
    return total << k if k >= 0 else total >> -k


def log_fixed(x, guess):
    """log x from a guess that is right to ten digits or so, which is checked."""
    y = fixed(guess)
    e = exp_fixed(y)
    z = ((x - e) << PLACES) // (x + e)
    if abs(z) >> (PLACES - 35):
        raise NotCheckable("a logarithm was guessed wrongly")
    # 2 atanh z = 2z + 2z^3/3 + ..., the second term below 2^-104
    return y + 2 * z


def normals(seed):
    """Each within 2^-54 of what it would be with all digits."""
    counter = 0
    while True:
        digest = hashlib.sha256(seed + struct.pack("<Q", counter)).digest()
        counter += 1
        v = [2 * int.from_bytes(digest[at : at + 16], "big") + 1 - (1 << 128) for at in (0, 16)]
        square = v[0] ** 2 + v[1] ** 2
        border = square - (1 << 256)
        if abs(border) < 1 << 200 or square < 1 << 216:
            raise NotProved("a draw is too close to the circle or to its centre")
        if border > 0:
            continue
        s = square >> (256 - PLACES)
        # log s = log1p(-(1 - s)), whose guess must be good near 1
        log = log_fixed(s, math.log1p(border / 2.0**256) if border / 2.0**256 > -0.5 else math.log(s / ONE))
        f = math.isqrt(((-2 * log << PLACES) // s) << PLACES)
        yield v[0] * f >> 128
        yield v[1] * f >> 128


def read_draws(text, lines, p):
    p["delta"] = lines.one("delta")
    d = read_model(lines, p)
    p["rows"], p["block_rows"] = lines.whole("rows"), lines.whole("block-rows")
    if not 1 <= p["block_rows"] <= 2**20:
        raise NotCheckable("blocks of another size")
    p["root"] = lines.hash("root")
    p["mean"], p["factor"] = lines.numbers("mean", d), lines.triangle("factor-row", d)
    if lines.word("theorem") != "D8":
        raise NotCheckable("another theorem")
    p["pairs"], p["level"] = lines.whole("pairs"), lines.one("level")
    p["growth"], p["cap"] = lines.numbers("growth", 2), lines.numbers("cap", 2)
    count = lines.whole("directions")
    if p["pairs"] * max(d, count) > 2**24:
        raise NotCheckable("too many pairs")
    p["directions"] = []
    for _ in range(count):
        words = lines.words("direction")
        require(len(words) == d + 1, "a direction has a name and d numbers")
        p["directions"].append((words[0], [lines.number(word) for word in words[1:]]))
    p["seed"] = lines.hash("seed")
    above = text.encode().partition(b"\nseed ")[0] + b"\n"
    require(hashlib.sha256(above).digest() == p["seed"], "the seed is not the hash of what is above it")
    p["tail"], p["divergence"] = lines.one("tail"), lines.one("divergence")
    p["moments"] = [lines.numbers("moments", 4) for _ in range(count)]
    p["blocks"] = [lines.hash("block") for _ in range(-(-p["rows"] // p["block_rows"]))]
    require(lines.words("end") == [], "end has no values")
    require(all(not line.strip() for line in lines.lines[lines.at :]), "nothing may follow end")
    for holds, what in (
        (0 < p["delta"] <= 0.5, "0 < delta <= 1/2"),
        (all(row[-1] > 0 for row in p["factor"]), "the diagonal of the factor is positive"),
        (p["pairs"] >= 2, "two pairs"),
        (0 < p["growth"][1] < p["tail"], "0 < r_0 < z"),
        (p["cap"][0] >= max(p["growth"][0], 0), "tau >= w_0 and tau >= 0"),
        (2 <= p["cap"][1] <= 100, "2 <= xi <= 100"),
    ):
        require(holds, what)
    return p


def potentials(p, data):
    """V at x and -x of all pairs with its error, bounds of |gradient|, and x: numbers are fixed or floats that bound."""
    d, n = p["d"], p["pairs"]
    stream = normals(p["seed"])
    points = [[next(stream) for _ in range(d)] for _ in range(n)]
    c_matrix = [[Fraction(p["factor"][i][j]) if j <= i else Fraction(0) for j in range(d)] for i in range(d)]
    transposed = [list(column) for column in zip(*c_matrix)]
    j_matrix = [[Fraction(x) for x in row] for row in p["J"]]
    away = [[Fraction(m) - Fraction(mu)] for m, mu in zip(p["mean"], p["prior_mean"])]
    slope = [fixed(x) for x in flat(product(transposed, product(j_matrix, away)))]
    matrix = product(transposed, product(j_matrix, c_matrix))
    matrix = [[fixed(matrix[i][j] - (i == j)) for j in range(d)] for i in range(d)]
    largest = float(max(abs(x) for x in flat(matrix) + slope)) / ONE
    values, wrong, gradients = [], [], []
    for x in points:
        size = 1 + sum(abs(float(a)) for a in x) / ONE
        for sign in (1, -1):
            x_own = [sign * a for a in x]
            pull = [sum(q * a for q, a in zip(row, x_own)) >> PLACES for row in matrix]
            values.append(sum((a * s + (a * q >> 1)) for a, s, q in zip(x_own, slope, pull)) >> PLACES)
            gradients.append([s + q for s, q in zip(slope, pull)])
            wrong.append([SLACK * d * (1 + largest) * size**2, SLACK * d * (1 + largest) * size])
    width = len(p["columns"]) + 4
    sd = Fraction(p["sd"])
    for row in range(p["rows"]):
        numbers = struct.unpack_from(f"<{width}d", data, 8 * width * row)
        require(all(abs(v) <= 1e50 for v in numbers), "a row has a number that it must not have")
        *x, y, trials, offset, weight = numbers
        require(legal(p["likelihood"], y, trials) and weight >= 0, "a row has a response or weight that it must not have")
        v = [Fraction(1)] if p["intercept"] else []
        v += [(Fraction(a) - Fraction(centre)) / Fraction(scale) for a, (centre, scale) in zip(x, p["columns"])]
        c = Fraction(offset) + sum(a * Fraction(m) for a, m in zip(v, p["mean"]))
        a = [sum(v[i] * c_matrix[i][j] for i in range(j, d)) for j in range(d)]
        norm = 1.001 * math.sqrt(float(sum(z * z for z in a)))
        if norm > 1e6 or abs(c) > 1e6 or y > 1e12 or trials > 1e12 or weight > 1e12:
            raise NotCheckable("a row is too large for fixed point")
        c, a = fixed(c), [fixed(z) for z in a]
        w, y_own, n_own = fixed(weight), fixed(y), fixed(trials)
        for pair, x in enumerate(points):
            step = sum(q * b for q, b in zip(a, x)) >> PLACES
            off = SLACK * d * (1 + norm)
            for k, t in ((2 * pair, c + step), (2 * pair + 1, c - step)):
                if p["likelihood"] == "linear":
                    rest = Fraction(t - y_own, ONE) / sd**2
                    loss, first, second = fixed(rest * (t - y_own) / ONE / 2), fixed(rest), float(1 / sd**2)
                elif p["likelihood"] == "poisson":
                    rate = exp_fixed(t)
                    loss, first, second = rate - (t * y_own >> PLACES), rate - y_own, 1.1 * float(rate) / ONE
                else:
                    e = exp_fixed(-abs(t))
                    soft = log_fixed(ONE + e, math.log1p(e / ONE)) + max(t, 0)
                    sigma = ((ONE if t >= 0 else e) << PLACES) // (ONE + e)
                    loss, first = (n_own * soft - t * y_own) >> PLACES, ((n_own * sigma) >> PLACES) - y_own
                    second = float(trials)
                steep = abs(float(first)) / ONE + 1 + y + trials
                values[k] += w * loss >> PLACES
                own = gradients[k]
                slope_own = w * first >> PLACES
                for j in range(d):
                    own[j] += slope_own * a[j] >> PLACES
                wrong[k][0] += 2 * weight * (steep + second) * off * (1 + abs(float(t)) / ONE) + SLACK
                wrong[k][1] += 2 * weight * (norm + 1) * (second * off + steep * SLACK) + SLACK
    return points, values, wrong, gradients


def check_draws(p, rows):
    require(tree(p["blocks"]) == p["root"], "another root")
    width = 8 * (len(p["columns"]) + 4)
    require(len(rows) == width * p["rows"], "another number of rows")
    for k, block in enumerate(p["blocks"]):
        part = rows[width * p["block_rows"] * k : width * p["block_rows"] * (k + 1)]
        require(hashlib.sha256(b"\x00" + part).digest() == block, "a block has another hash")
    d, n = p["d"], p["pairs"]
    points, values, wrong, gradients = potentials(p, rows)
    level = fixed(p["level"])
    v = [level - value for value in values]
    worst = max(one for one, _ in wrong)
    if worst > 1e-3:
        raise NotCheckable("fixed point is too coarse")
    dec = Decimal
    w_0, r_0, tau, xi, z = (dec(x) for x in (*p["growth"], *p["cap"], p["tail"]))
    one_up = 1 + SMALL
    outside = 0
    for k in range(0, 2 * n, 2):
        square = sum(g * g for g in gradients[k])
        steep = (dec(square).sqrt() / ONE) * one_up + dec(wrong[k][1])
        outside += not (dec(v[k]) / ONE + dec(worst) <= w_0 and steep <= r_0)

    def gamma(x):
        return (-x * x / 2).exp() / TWO_PI.sqrt()

    def birnbaum(x):
        return 2 / (x + (x * x + 4).sqrt())

    parts = 4 + 4 * len(p["directions"])
    share = -(dec(p["delta"]) / parts).ln()
    chance, part = gamma(z) * birnbaum(z) * (1 - SMALL), dec(outside) / n
    require(part < chance, "the tail is not proved")
    divergence = (1 - part) * ((1 - part) / (1 - chance)).ln() + (part * (part / chance).ln() if outside else 0)
    require(n * divergence >= share * one_up, "the tail is not proved")
    a = z - r_0
    rho = max(dec(0), (r_0 * r_0 + 2 * (tau - w_0)).sqrt() - r_0) * (1 - SMALL)
    b, y = r_0 + rho, z + rho
    t_0 = (w_0 - a * rho).exp() * gamma(z) / a * (1 + dec("1e-20"))
    t_1, t_2 = 2 * t_0 * (b + 1 / a), 2 * t_0 * (b * y + (b + y) / a + 2 / a**2 + 1)
    t_k = t_0 * (1 + tau + b / a + 1 / a**2)
    long = share + dec(2).ln()

    def interval(numbers, rad, length):
        """numbers are fixed, each within rad of the truth."""
        mean = dec(sum(numbers)) / (n * ONE)
        square = dec(sum(x * x for x in numbers)) / (ONE * ONE)
        # with exact sums, so that nothing is lost by the difference
        variance = (square * n - (mean * n) ** 2) / (n * (n - 1)) + SMALL * (square + 1)
        half = (variance.sqrt() + 2 * rad) * (2 * long / n).sqrt() + 7 * length * long / (3 * (n - 1))
        half = half * one_up + rad + SMALL
        return mean - half, mean + half

    top, most = fixed(p["cap"][0]), tau.exp() * one_up
    capped = [min(x, top) for x in v]
    weights = [exp_fixed(x) for x in capped]
    rad = most * dec(1.1 * worst + SLACK)
    shifts = [((weights[k] + weights[k + 1]) >> 1) - ONE for k in range(0, 2 * n, 2)]
    low, high = interval(shifts, rad, most)
    least, largest = 1 + low, 1 + high + t_0
    require(least > 0, "the mean weight is not proved to be positive")
    terms = [w * x >> PLACES for w, x in zip(weights, capped)]
    terms = [(terms[k] + terms[k + 1]) >> 1 for k in range(0, 2 * n, 2)]
    _, high = interval(terms, rad * (2 + tau), tau * most + dec("0.368"))
    found = (max(dec(0), high + t_k) / least - least.ln()) * one_up
    require(found <= dec(p["divergence"]), f"only a divergence of {float(found):.9e} is proved")

    def ratio(low, high):
        return low / (least if low < 0 else largest), high / (largest if high < 0 else least)

    e_1 = most * gamma(xi) * (1 - xi * birnbaum(xi)) + t_1 + SMALL
    e_2 = 2 * gamma(xi) * (xi - (xi * xi - 1) * birnbaum(xi)) + SMALL
    for (name, weights_of), (m_low, m_high, s_low, s_high) in zip(p["directions"], p["moments"]):
        pull = [sum(Fraction(weights_of[i]) * Fraction(p["factor"][i][j]) for i in range(j, d)) for j in range(d)]
        length = sum((x * x for x in pull), Fraction(0))
        require(length > 0, "a direction is zero")
        norm = (dec(length.numerator) / dec(length.denominator)).sqrt()
        unit = [int((dec(x.numerator) / dec(x.denominator) / norm) * ONE) for x in pull]
        cut = fixed(p["cap"][1])
        places = [max(-cut, min(cut, sum(q * x for q, x in zip(unit, point)) >> PLACES)) for point in points]
        off = dec(SLACK * d)
        odd = [((weights[2 * k] - weights[2 * k + 1]) * g >> PLACES) >> 1 for k, g in enumerate(places)]
        low, high = interval(odd, rad * xi + most * off, most * xi)
        e_low, e_high = ratio(low - e_1, high + e_1)
        even = [y_own * ((g * g >> PLACES) - ONE) >> PLACES for y_own, g in zip(shifts, places)]
        square = xi * xi - 1
        low, high = interval(even, (rad + most * off * 2) * xi * xi, max(square, most - 1) + max(dec(1), (most - 1) * square))
        f_low, f_high = (1 + x for x in ratio(low - t_0 - e_2, high + (most - 1) * e_2 + t_2))
        far, near = max(abs(e_low), abs(e_high)), max(e_low, -e_high, dec(0))
        # the differences lose digits
        variances = (f_low - far * far - SMALL * (1 + far * far), f_high - near * near + SMALL * (1 + near * near))
        sds = [norm * max(dec(0), x).sqrt() for x in variances]
        centre = sum(Fraction(x) * Fraction(m) for x, m in zip(weights_of, p["mean"]))
        centre = dec(centre.numerator) / dec(centre.denominator)
        ends = [centre + norm * x for x in (e_low, e_high)] + sds
        room = SMALL * (1 + abs(centre) + norm)
        holds = dec(m_low) <= ends[0] - room and ends[1] + room <= dec(m_high)
        holds = holds and dec(s_low) <= ends[2] * (1 - SMALL) and ends[3] * one_up <= dec(s_high)
        require(holds, f"of {name} only {[float(x) for x in ends]} is proved")
    return p, float(found)


# Section 16: the variance parameters of a linear mixed model, in decimals


class Wide:
    """A matrix that is known within a radius in the Frobenius norm."""

    def __init__(self, rows, rad=Decimal(0)):
        self.rows, self.rad = rows, rad

    def norm(self):
        return sum(x * x for row in self.rows for x in row).sqrt() * (1 + SMALL) + SMALL**3

    def size(self):
        return self.norm() + self.rad

    def times(self, other):
        columns = list(zip(*other.rows))
        rows = [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in self.rows]
        a, b = self.norm(), other.norm()
        return Wide(rows, a * other.rad + self.rad * b + self.rad * other.rad + SMALL * a * b)

    def plus(self, factor, other):
        rows = [[x + factor * y for x, y in zip(a, b)] for a, b in zip(self.rows, other.rows)]
        return Wide(rows, self.rad + abs(factor) * other.rad + SMALL * (self.norm() + abs(factor) * other.norm()))

    def transposed(self):
        return Wide([list(column) for column in zip(*self.rows)], self.rad)

    def inner(self, other):
        at = sum(x * y for a, b in zip(self.rows, other.rows) for x, y in zip(a, b))
        a, b = self.norm(), other.norm()
        return at, a * other.rad + self.rad * b + self.rad * other.rad + SMALL * a * b

    def near_one(self):
        """The inverses of matrices near I: with I + E and |E| <= e < 1 they are within e/(1 - e) of I."""
        one = identity(len(self.rows))
        wrong = self.plus(-1, one).size()
        require(wrong < Decimal("0.9"), "a matrix is not proved to be positive definite")
        return Wide(one.rows, wrong / (1 - wrong) * (1 + SMALL))


def identity(n):
    return Wide([[Decimal(int(i == j)) for j in range(n)] for i in range(n)])


def whitening(matrix):
    """T with T A T' near I, the inverse of the Cholesky factor of A, in ordinary arithmetic."""
    n = len(matrix.rows)
    a = [[float(x) for x in row] for row in matrix.rows]
    low, out = [], []
    for i in range(n):
        row = []
        for j in range(i):
            row.append((a[i][j] - sum(x * y for x, y in zip(row, low[j]))) / low[j][j])
        left = a[i][i] - sum(x * x for x in row)
        require(0 < left < math.inf, "V or X'V^-1 X is not proved to be positive definite")
        row.append(math.sqrt(left))
        low.append(row)
        turned = [0.0] * i + [1.0] + [0.0] * (n - i - 1)
        for times, other in zip(row, out):
            if times:
                turned = [x - times * y for x, y in zip(turned, other)]
        out.append([x / row[i] for x in turned])
    require(all(abs(x) < math.inf for row in out for x in row), "a matrix is singular")
    require(all(out[i][i] > 0 for i in range(n)), "a matrix is singular")
    return Wide([[Decimal(x) for x in row] for row in out])


def read_mixed(lines, p):
    p["criterion"] = lines.word("criterion")
    require(p["criterion"] in ("reml", "ml"), "criterion is reml or ml")
    p["rows"], p["root"] = lines.whole("rows"), lines.hash("root")
    word = lines.word("intercept")
    require(word in ("yes", "no"), "intercept is yes or no")
    p["intercept"], count = word == "yes", lines.whole("columns")
    if p["rows"] > 600 or count > 64:
        raise NotCheckable("too many rows or columns")
    p["columns"] = []
    for _ in range(count):
        words = lines.words("column")
        require(len(words) == 3, "a column has a name and two numbers")
        p["columns"].append((lines.number(words[1]), lines.number(words[2])))
    p["terms"], k = [], 1
    for _ in range(lines.whole("terms")):
        words = lines.words("term")
        require(len(words) == 2, "a term has a name and a number of effects")
        effects = min(lines.as_whole(words[1]), 24)
        p["terms"].append((words[0], effects))
        k += effects * (effects + 1) // 2
        if k > 24:
            raise NotCheckable("too many variance parameters")
    if lines.word("theorem") != "V1":
        raise NotCheckable("another theorem")
    p["estimate"], p["factor"] = lines.numbers("estimate", k), lines.triangle("factor-row", k)
    p["radius"], p["lambda"] = lines.one("radius"), lines.one("lambda")
    p["between"] = [lines.numbers("between", 2) for _ in range(k)]
    require(lines.words("end") == [], "end has no values")
    require(all(not line.strip() for line in lines.lines[lines.at :]), "nothing may follow end")
    for holds, what in (
        (p["rows"] > 0, "there is a row"),
        (p["intercept"] or p["columns"], "there is a coefficient"),
        (all(scale > 1e-50 for _, scale in p["columns"]), "scale > 1e-50"),
        (all(effects > 0 for _, effects in p["terms"]), "every term has an effect"),
        (p["estimate"][0] > 0, "the variance of the noise is positive"),
        (all(row[-1] > 0 for row in p["factor"]), "the diagonal of the factor is positive"),
        (p["radius"] > 0 and p["lambda"] > 0, "radius and lambda are positive"),
    ):
        require(holds, what)
    return p


def check_mixed(p, data):
    width = len(p["columns"]) + sum(1 + effects for _, effects in p["terms"]) + 1
    n, k = p["rows"], len(p["estimate"])
    require(len(data) == 8 * width * n, "another number of rows")
    require(hashlib.sha256(b"\x00" + data).digest() == p["root"], "another root")
    values = [struct.unpack_from(f"<{width}d", data, 8 * width * row) for row in range(n)]
    require(all(abs(v) <= 1e50 for row in values for v in row), "a row has a number that it must not have")
    if any(abs(v) > 1e9 for row in values for v in row) or n > 300:
        raise NotCheckable("too many rows, or numbers that are too large, for decimals")
    values = [[Decimal(v) for v in row] for row in values]
    ones = [Decimal(1)] if p["intercept"] else []
    columns = [(Decimal(centre), Decimal(scale)) for centre, scale in p["columns"]]
    x = Wide([ones + [(v - centre) / scale for v, (centre, scale) in zip(row, columns)] for row in values])
    x.rad = SMALL * (x.norm() + sum(abs(centre / scale) for centre, scale in columns) * n)
    y = Wide([[row[-1]] for row in values])
    z, at = [], len(columns)
    for _, effects in p["terms"]:
        groups = sorted({row[at] for row in values})
        z.append([Wide([[row[at + 1 + i] if row[at] == g else Decimal(0) for g in groups] for row in values]) for i in range(effects)])
        at += 1 + effects
    theta = [Decimal(t) for t in p["estimate"]]

    def parts(t):
        """T G T' for every parameter; G with T = I where there is none."""
        out = [t.times(t.transposed()) if t else identity(n)]
        for term in z:
            own = [t.times(one) if t else one for one in term]
            for i, j in ((i, j) for i in range(len(own)) for j in range(i + 1)):
                half = own[i].times(own[j].transposed())
                out.append(half if i == j else half.plus(1, half.transposed()))
        return out

    def combined(factors, matrices):
        total = Wide([[Decimal(0)] * n for _ in range(n)])
        for factor, matrix in zip(factors, matrices):
            total = total.plus(factor, matrix) if factor else total
        return total

    # the frame in which V is near I and X'X near I; F changes by a constant
    t = whitening(combined(theta, parts(None)))
    turned = t.times(x)
    m = whitening(turned.transposed().times(turned)).transposed()
    ortho = turned.times(m)
    # P X = 0, so that any residuals do for y
    b = m.times(ortho.transposed().times(t.times(y)))
    residuals = t.times(y.plus(-1, x.times(Wide(b.rows))))
    g = parts(t)
    v = combined(theta, g)
    w = [combined([Decimal(p["factor"][i][j]) if i >= j else Decimal(0) for i in range(k)], g) for j in range(k)]

    def solved(v):
        inverse = v.near_one()
        vx = Wide(ortho.rows, (ortho.rad + inverse.rad * ortho.size()) * (1 + SMALL))
        m = ortho.transposed().times(vx).near_one()
        projected = inverse.plus(-1, vx.times(m).times(vx.transposed()))
        return (projected if p["criterion"] == "reml" else inverse), projected, projected.times(residuals)

    q, _, py = solved(v)
    steep = wrong = Decimal(0)
    for own in w:
        (a, a_rad), (b, b_rad) = q.inner(own), py.inner(own.times(py))
        steep, wrong = steep + ((a - b) / 2) ** 2, wrong + (a_rad + b_rad) / 2
    steep = (steep.sqrt() + wrong) * (1 + SMALL)
    radius = Decimal(p["radius"])
    wide = Wide(v.rows, (v.rad + radius * sum(own.size() ** 2 for own in w).sqrt()) * (1 + SMALL))
    q, projected, py = solved(wide)
    pulls, turned = [own.times(py) for own in w], [q.times(own) for own in w]
    hessian, rad = [[Fraction(0)] * k for _ in range(k)], Decimal(0)
    for i in range(k):
        pulled = projected.times(pulls[i])
        for j in range(i + 1):
            (a, a_rad), (b, b_rad) = pulls[j].inner(pulled), turned[i].inner(turned[j].transposed())
            hessian[i][j] = hessian[j][i] = Fraction(a - b / 2)
            rad += (1 if i == j else 2) * ((a_rad + b_rad / 2) + SMALL * (abs(a) + abs(b))) ** 2
    least = least_eigenvalue(hessian, Fraction(rad.sqrt() * (1 + SMALL)), Fraction(p["lambda"]))
    require(least is not None and least > 0, "lambda is not proved")
    require(Fraction(steep) < least * Fraction(p["radius"]), f"the gradient {float(steep):.3e} asks for a larger radius")
    distance = Fraction(steep) / least
    for t, row, (low, high) in zip(p["estimate"], p["factor"], p["between"]):
        reach = norm_above([Fraction(c) for c in row]) * distance
        require(Fraction(low) <= Fraction(t) - reach and Fraction(t) + reach <= Fraction(high), "an end is too tight")
    return p, float(distance)


def check(text, rows):
    p = read(text)
    if p["claim"] == "sd-interval":
        return check_sd(p, rows)
    if p["claim"] == "posterior-moments":
        return check_draws(p, rows)
    if p["claim"] == "variance-maximum":
        return check_mixed(p, rows)
    require(tree(block["hash"] for block in p["blocks"]) == p["root"], "another root")
    bound = prove(p)
    width = 8 * (len(p["columns"]) + 4)
    require(len(rows) == width * p["rows"], "another number of rows")
    for k, block in enumerate(p["blocks"]):
        first = k * p["block_rows"]
        count = min(p["block_rows"], p["rows"] - first)
        check_block(p, block, rows[width * first : width * (first + count)], count)
    return p, bound


def judge(proof):
    """0, 1 or 2, and a sentence."""
    try:
        # not read_text, which changes line ends
        text = proof.read_bytes().decode("utf-8", "strict")
        p, bound = check(text, proof.with_suffix(".rows").read_bytes())
    except UnicodeDecodeError:
        return 1, "not proved: the file is not UTF-8"
    except NotProved as why:
        return 1, f"not proved: {why}"
    except NotCheckable as why:
        return 2, f"not checkable: {why}"
    if p["claim"] == "sd-interval":
        flat = all(x == 0 for row in p["J"] for x in row)
        return 0, (
            f"proved: the {'' if flat else 'penalised '}likelihood of the coefficients and the sd of one effect has a local "
            f"maximum at an sd between {p['between'][0]!r} and {p['between'][1]!r}, for the {p['likelihood']} regression of "
            f"{p['rows']} rows (SHA-256 {p['root'].hex()}) on {p['d']} coefficients (at its ends the objective is lower by "
            f"at least {bound!r} nats)."
        )
    if p["claim"] == "variance-maximum":
        ends = ", ".join(f"[{a!r}, {b!r}]" for a, b in p["between"])
        return 0, (
            f"proved: {p['criterion'].upper()} of the linear mixed model of {p['rows']} rows (SHA-256 {p['root'].hex()}) has a strict "
            f"local maximum whose variance parameters (noise, then the triangles of the terms) are in {ends}."
        )
    if p["claim"] == "posterior-moments":
        names = (
            f"the mean of {name!r} is between {a!r} and {b!r}, its sd between {c!r} and {e!r}"
            for (name, _), (a, b, c, e) in zip(p["directions"], p["moments"])
        )
        return 0, (
            f"proved: with a probability of at least 1 - {p['delta']!r} (of {p['pairs']} pairs of draws) KL(posterior || q) is at most "
            f"{p['divergence']!r} nats; {'; '.join(names)}; for the {p['likelihood']} regression of {p['rows']} rows "
            f"(SHA-256 {p['root'].hex()}) on {p['d']} coefficients with the stated prior."
        )
    claims = {
        "gap-of-all-gaussians": f"no Gaussian has an ELBO that is more than {p['bound']!r} nats above that of the stated one",
        "kl-from-linear-posterior": f"KL(q || posterior) of the stated Gaussian q is at most {p['bound']!r} nats",
    }
    return 0, (
        f"proved: {claims[p['claim']]}, for the "
        f"{p['likelihood']} regression of {p['rows']} rows (SHA-256 {p['root'].hex()}) on {p['d']} coefficients with "
        f"the stated prior (the bound that follows from the sums is {bound!r})."
    )


def corpus(directory, seconds):
    counts, wrong, judged = {}, 0, 0
    proofs = sorted(Path(directory).glob("*.proof"), key=lambda proof: (proof.stem.split("-")[1], proof.stem))
    for proof in proofs:
        if time.process_time() > seconds:
            break
        judged += 1
        true, kind = proof.stem.startswith("true-"), proof.stem.split("-", 2)[2]
        code, words = judge(proof)
        right = (code == 0) == true
        wrong += not right
        line = counts.setdefault(("true" if true else "false", kind), [0, 0, 0])
        line[code] += 1
        if not right:
            print(f"WRONG {proof.name}: {words}")
    print(f"{'certificates':<40} proved  not proved  not checkable")
    for (true, kind), (a, b, c) in sorted(counts.items()):
        print(f"{true + ', ' + kind:<40} {a:>6} {b:>11} {c:>14}")
    print(f"judged wrongly: {wrong} of {judged}, {len(proofs) - judged} not judged, {time.process_time():.0f} s of processor time")
    return int(wrong > 0 or not counts)


if __name__ == "__main__":
    if len(sys.argv) in (3, 4) and sys.argv[1] == "--corpus":
        sys.exit(corpus(sys.argv[2], float((sys.argv[3:] or ["inf"])[0])))
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    path = Path(sys.argv[1])
    if len(sys.argv) == 3 and Path(sys.argv[2]) != path.with_suffix(".rows"):
        sys.exit("the rows must be in the file beside the certificate that ends in .rows")
    code, words = judge(path)
    print(words)
    sys.exit(code)
