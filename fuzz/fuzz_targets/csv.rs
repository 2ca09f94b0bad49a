#![no_main]

libfuzzer_sys::fuzz_target!(
    init: certus_fuzz::decoders_may_panic(),
    |bytes: &[u8]| certus_fuzz::csv(bytes)
);
