"""Writes expectations.csv: E phi, E phi', E phi''(1, x, x^2) for t = mean + sd x, x ~ N(0,1), with 40 digits (mpmath)."""
from mpmath import mp, mpf, quad, exp, log, sqrt, pi, erfc, loggamma, linspace, nstr
mp.dps = 40

def logistic(t, y):
    s = 1 - 2 * y
    e = exp(-abs(s * t))
    value = (s * t if s * t > 0 else 0) + log(1 + e)
    sig = (1 if s * t >= 0 else e) / (1 + e)
    return value, s * sig, e / (1 + e) ** 2

def probit(t, y):
    s = 2 * y - 1
    cdf = erfc(-s * t / sqrt(2)) / 2
    h = exp(-t * t / 2) / sqrt(2 * pi) / cdf
    return -log(cdf), -s * h, h * (h + s * t)

def negbin(k):
    def f(t, y):
        u = t - log(k)
        e = exp(-abs(u))
        sp = (u if u > 0 else 0) + log(1 + e)
        sn = sp - u
        sig = (1 if u >= 0 else e) / (1 + e)
        const = loggamma(y + 1) + loggamma(k) - loggamma(y + k)
        return k * sp + y * sn + const, k * sig - y * (1 - sig), (y + k) * e / (1 + e) ** 2
    return f

def moments(f, mean, sd, y):
    # break points where the integrand changes scale: the kink of |t| and the bulk of the normal
    points = sorted(set([mpf(-14), mpf(14)] + [mpf(v) for v in range(-12, 13, 2)] + [min(max((c - mean) / sd, mpf(-14)), mpf(14)) for c in (-20, -5, -2, 0, 2, 5, 20)]))
    def e(g):
        return quad(lambda x: g(x) * exp(-x * x / 2) / sqrt(2 * pi), points)
    at = lambda x: f(mean + sd * x, y)
    return [e(lambda x: at(x)[0]), e(lambda x: at(x)[1]), e(lambda x: at(x)[2]), e(lambda x: at(x)[2] * x), e(lambda x: at(x)[2] * x * x)]

rows = []
for name, f, ys in [("logistic", logistic, [0, 1]), ("probit", probit, [0, 1]), ("negbin2.5", negbin(mpf("2.5")), [0, 7])]:
    for sd in ["0.001", "0.1", "0.5", "1", "3", "10", "30"]:
        for mean in ["0", "1.5", "-8"]:
            for y in ys:
                rows.append((name, mean, sd, y, f))
rows += [("probit", m, s, 1, probit) for m in ["-100", "-10000"] for s in ["0.001", "1"]]
print("likelihood,mean,sd,y,e0,e1,q0,q1,q2")
for name, mean, sd, y, f in rows:
    if abs(float(mean)) > 50:
        mp.dps = 60
    v = moments(f, mpf(mean), mpf(sd), mpf(y)) if abs(float(mean)) < 1000 else None
    if v is None:
        # Phi underflows: asymptotic hazard h(x) = x + 1/x - 2/x^3 + ..., h' = 1 - 1/x^2 + 6/x^4 (x = -t), integrated exactly enough
        from mpmath import quad as q
        def far(t, y):
            x = -t
            m = 1 - 1/x**2 + 3/x**4 - 15/x**6 + 105/x**8
            value = x*x/2 + log(x) + log(2*pi)/2 - log(m)
            h = x / m
            return value, -h, h * (h - x)
        v = moments(far, mpf(mean), mpf(sd), mpf(y))
    print(",".join([name, mean, sd, str(y)] + [nstr(x, 20) for x in v]))
    mp.dps = 40
