//! The gap from fresh draws when μ and M are declared (math: D1, D2).
