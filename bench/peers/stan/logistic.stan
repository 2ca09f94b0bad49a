// Logistic regression with prior N(0, I), no intercept.
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[D] w;
}
model {
  w ~ std_normal();
  y ~ bernoulli_logit_glm(X, 0.0, w);
}
