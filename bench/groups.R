# groups.R FILE FEATURES: glmmTMB and glmer (both Laplace) on a file that `groups make` wrote.
arguments <- commandArgs(trailingOnly = TRUE)
features <- as.integer(arguments[2])
numbers <- readBin(arguments[1], "double", n = file.size(arguments[1]) / 8)
table <- as.data.frame(matrix(numbers, ncol = features + 2, byrow = TRUE))
names(table) <- c("y", "g", paste0("x", seq_len(features)))
formula <- as.formula(paste("y ~", paste(c(paste0("x", seq_len(features)), "(1 | g)"), collapse = " + ")))
said <- function(name, sd, time) {
  peak <- sub("VmHWM:\\s*", "", grep("VmHWM", readLines("/proc/self/status"), value = TRUE))
  cat(sprintf("%-11s sd %.5f, %.2f s, %.2f CPU s, %s at most\n", name, sd, time["elapsed"], time["user.self"] + time["sys.self"], peak))
}
time <- system.time(fit <- glmmTMB::glmmTMB(formula, table, family = binomial))
said("glmmTMB", attr(glmmTMB::VarCorr(fit)$cond$g, "stddev"), time)
time <- system.time(fit <- lme4::glmer(formula, table, family = binomial))
said("glmer", attr(lme4::VarCorr(fit)$g, "stddev"), time)
