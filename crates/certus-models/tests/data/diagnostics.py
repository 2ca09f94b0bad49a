"""Writes diagnostics.csv: series of draws and what arviz 0.23 says of them (pip install 'arviz<1' numpy)."""
import arviz
import numpy

random = numpy.random.default_rng(20)


def autoregressive(chains, draws, rho):
    x = numpy.empty((chains, draws))
    x[:, 0] = random.normal(size=chains)
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + numpy.sqrt(1 - rho**2) * random.normal(size=chains)
    return x


cases = {
    "independent": random.normal(size=(4, 60)),
    "slow": autoregressive(4, 60, 0.95),
    "mixing": autoregressive(2, 101, 0.6),
    "antithetic": autoregressive(4, 50, -0.6),
    "very antithetic": autoregressive(2, 40, -0.95),
    "one elsewhere": autoregressive(4, 40, 0.3) + numpy.array([[0], [0], [0], [2]]),
    "one wider": autoregressive(4, 40, 0.3) * numpy.array([[1], [1], [1], [5]]),
    "heavy tails": random.standard_cauchy(size=(3, 41)),
    "counts": random.poisson(1.5, size=(4, 40)).astype(float),
    "far from 0": 1000 + 0.001 * autoregressive(3, 30, 0.5),
    "short": random.normal(size=(3, 4)),
}
print("case,chains,mean,mean_se,sd,sd_se,r_hat,ess,draws")
for name, x in cases.items():
    # as they are written
    text = [f"{v:.8g}" for v in x.ravel()]
    x = numpy.array([float(v) for v in text]).reshape(x.shape)
    numbers = [
        x.mean(),
        arviz.mcse(x, method="mean"),
        x.std(ddof=1),
        arviz.mcse(x, method="sd"),
        arviz.rhat(x, method="rank"),
        arviz.ess(x, method="mean"),
    ]
    print(",".join([name, str(len(x)), *(repr(float(v)) for v in numbers), " ".join(text)]))
