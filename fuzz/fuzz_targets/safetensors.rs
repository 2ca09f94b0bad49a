#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| certus_fuzz::safetensors(bytes));
