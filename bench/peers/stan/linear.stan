// Linear regression with unit noise and prior N(0, I), no intercept.
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  vector[N] y;
}
parameters {
  vector[D] w;
}
model {
  w ~ std_normal();
  y ~ normal_id_glm(X, 0.0, w, 1.0);
}
