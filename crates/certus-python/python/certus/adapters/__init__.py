"""Models of other libraries as targets: each module has `target(model, **options)` and imports its library only when called."""
