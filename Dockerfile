# certus in a container: docker build -t certus . && docker run --rm -v "$PWD:/data" certus fit logistic trial.csv "y ~ x"
FROM rust:1.95-bookworm AS build
WORKDIR /certus
COPY . .
RUN cargo build --profile dist --locked -p certus-cli --bin certus && cargo build --profile dist --locked -p certus-check --bin certus-check

FROM debian:bookworm-slim
COPY --from=build /certus/target/dist/certus /certus/target/dist/certus-check /usr/local/bin/
RUN useradd --create-home certus
USER certus
WORKDIR /data
ENTRYPOINT ["certus"]
