# peers.R lme4|glmmTMB insteval|good|slopes|large FILE: one fit, its CPU seconds and what it found.
suppressMessages({ library(lme4); library(glmmTMB) })
arguments <- commandArgs(TRUE)
program <- arguments[1]; task <- arguments[2]
d <- read.csv(arguments[3])
for (k in intersect(c("s", "d", "dept", "g", "service"), names(d))) d[[k]] <- factor(d[[k]])
crossed <- ~ service + (1 | s) + (1 | d) + (1 | dept)
formula <- switch(task, insteval = update(crossed, y ~ .), good = update(crossed, good ~ .), y ~ x + (x | g))
linear <- task %in% c("insteval", "large")
start <- proc.time()
fit <- if (program == "lme4" && linear) lmer(formula, d, REML = TRUE) else
  if (program == "lme4") glmer(formula, d, family = binomial) else
  if (linear) glmmTMB(formula, d, REML = TRUE) else glmmTMB(formula, d, family = binomial)
used <- proc.time() - start
v <- VarCorr(fit); if (program == "glmmTMB") v <- v$cond
sds <- unlist(lapply(v, function(m) attr(m, "stddev")))
rho <- unlist(lapply(v, function(m) attr(m, "correlation")[lower.tri(m)]))
cat(sprintf("%-16s %8.2f s of CPU, %.2f s, -2 log L %.4f, sds %s\n", program, used[1] + used[2], used[3],
            -2 * as.numeric(logLik(fit)), paste(format(c(sds, rho), digits = 5), collapse = " ")))
