// Hierarchical logistic regression: theta ~ N(0, I), z_g ~ N(theta, I); the rows come sorted by group.
data {
  int<lower=0> N;
  int<lower=0> D;
  int<lower=0> G;
  array[G] int first;
  array[G] int last;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[D] theta;
  array[G] vector[D] z;
}
model {
  theta ~ std_normal();
  for (g in 1:G) {
    z[g] ~ normal(theta, 1);
    y[first[g]:last[g]] ~ bernoulli_logit_glm(X[first[g]:last[g]], 0.0, z[g]);
  }
}
