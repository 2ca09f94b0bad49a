//! What is written is read back to the bit, what is damaged is refused, and errors are of the documented kinds.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;

use crate::common::fresh;
use certus::factor::{Lower, Pattern, Symmetric};
use certus::{Factor, Gaussian, Tree};
use certus_fit::arrays::Arrays;
use certus_fit::directory::{ARRAYS, CHECKPOINTS, RECORD, REPORT, SETTINGS, write_atomically};
use certus_fit::{Checkpoints, ErrorKind, Fingerprint, FitDirectory, Kind};

#[test]
fn a_directory_is_made_once() {
    let path = fresh("once").join("above/fit");
    let directory = FitDirectory::create(&path, false).unwrap();
    directory.write(RECORD, b"{}").unwrap();
    assert_eq!(
        directory.read(RECORD).unwrap_err().kind(),
        ErrorKind::NotFound,
        "nothing is there before it is complete"
    );
    directory.commit(false).unwrap();
    assert_eq!(directory.read(RECORD).unwrap(), b"{}");
    assert_eq!(directory.read("nothing").unwrap_err().kind(), ErrorKind::NotFound);
    // another process, or this one again, does not get in while it is written
    assert_eq!(FitDirectory::create(&path, true).unwrap_err().kind(), ErrorKind::Output);
    assert_eq!(FitDirectory::resume(&path).unwrap_err().kind(), ErrorKind::Output);
    drop(directory);
    let error = FitDirectory::create(&path, false).unwrap_err();
    assert!(error.kind() == ErrorKind::Output && error.to_string().contains("already exists"), "{error}");
    fs::write(path.join("mine.txt"), "keep me").unwrap();
    for name in [ARRAYS, REPORT, CHECKPOINTS[0], ".fit.json.tmp", ".report.html.00ff.tmp"] {
        fs::write(path.join(name), "old").unwrap();
    }
    let directory = FitDirectory::create(&path, true).unwrap();
    assert!(path.join(RECORD).exists() && path.join(ARRAYS).exists(), "the old fit stays");
    directory.write(SETTINGS, b"{}").unwrap();
    directory.commit(false).unwrap();
    drop(directory);
    let mut left: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["manifest.json", "mine.txt", "settings.json"], "only the fit is removed");
    // a directory that is not a fit, and a file
    fs::remove_file(path.join(SETTINGS)).unwrap();
    let error = FitDirectory::create(&path, true).unwrap_err();
    assert!(error.kind() == ErrorKind::Output && error.to_string().contains("no fit"), "{error}");
    assert_eq!(FitDirectory::create(&path.join("mine.txt"), true).unwrap_err().kind(), ErrorKind::Output);
    assert_eq!(
        FitDirectory::create(&path.join("mine.txt/below"), true).unwrap_err().kind(),
        ErrorKind::Output
    );
    assert_eq!(FitDirectory::open(&path.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(FitDirectory::open(&path.join("mine.txt")).unwrap_err().kind(), ErrorKind::Data);
}

#[test]
fn a_write_replaces_or_fails_whole() {
    let path = fresh("replace");
    fs::create_dir(&path).unwrap();
    let (a, b) = (path.join("a"), path.join("b"));
    for bytes in [&b"old"[..], b"new", b""] {
        write_atomically(&a, bytes).unwrap();
        assert_eq!(fs::read(&a).unwrap(), bytes);
    }
    fs::create_dir(&b).unwrap();
    assert_eq!(write_atomically(&b, b"x").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(write_atomically(&path.join("no/such/file"), b"x").unwrap_err().kind(), ErrorKind::Io);
    let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "b"], "no temporary file is left");
}

#[test]
fn checkpoints_of_a_fit_that_is_done_are_removed() {
    for unfinished in [true, false] {
        let path = fresh("done");
        let directory = FitDirectory::create(&path, false).unwrap();
        let mut checkpoints = Checkpoints::new(&directory, Kind::Auto, Fingerprint::of([]));
        (0..2).for_each(|_| checkpoints.write(b"state").unwrap());
        directory.write(RECORD, b"{}").unwrap();
        directory.commit(unfinished).unwrap();
        assert_eq!(checkpoints.latest().is_ok(), unfinished);
        assert_eq!(path.join(".run").exists(), unfinished);
    }
}

/// Awkward numbers: the smallest, the largest, no short decimals, a negative zero.
fn gaussians() -> Vec<Gaussian> {
    let mean = vec![-0.0, 1.0 / 3.0, f64::MIN_POSITIVE / 8.0];
    let lower = vec![0.1, -0.7, 1e-300, 0.0, 2.0 / 3.0, 5e200, 0.0, -0.0, 1e-200];
    let symmetric = vec![2.0, 0.1, 0.3, 0.1, 1.0 / 3.0, 0.0, 0.3, 0.0, 1.5];
    let tree = Arc::new(Tree::new(&[1, 1, 1], &[None, Some(0), Some(0)]).unwrap());
    let panels = vec![0.3, 1.0 / 7.0, 0.2, -0.0, 0.7];
    [
        Factor::Lower(Lower::new(3, lower).unwrap()),
        Factor::Symmetric(Symmetric::new(3, symmetric).unwrap()),
        Factor::Pattern(Pattern::new(tree, panels).unwrap()),
    ]
    .map(|factor| Gaussian::new(mean.clone(), factor).unwrap())
    .to_vec()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn arrays_come_back_to_the_bit() {
    let path = fresh("arrays");
    for gaussian in gaussians() {
        let vectors = [("scale".to_string(), vec![1e-7, 3.0]), ("none".to_string(), vec![])].into();
        let arrays = Arrays { gaussian, vectors };
        let directory = FitDirectory::create(&path, true).unwrap();
        arrays.write(&directory).unwrap();
        directory.write(RECORD, b"{}").unwrap();
        directory.commit(false).unwrap();
        let back = Arrays::read(&FitDirectory::open(&path).unwrap()).unwrap();
        assert_eq!(back, arrays);
        assert_eq!(bits(back.gaussian.mean()), bits(arrays.gaussian.mean()));
        assert_eq!(bits(back.gaussian.factor().values()), bits(arrays.gaussian.factor().values()));
        assert_eq!(arrays.encode().unwrap(), arrays.encode().unwrap(), "the same bytes every time");
    }
    let directory = FitDirectory::open(&path).unwrap();
    fs::remove_file(directory.file(ARRAYS)).unwrap();
    assert_eq!(Arrays::read(&directory).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(FitDirectory::open(&path).unwrap_err().kind(), ErrorKind::Data);
}

/// C_ij is at (i, j) for everybody who reads the file, whatever our memory order is.
#[test]
fn the_factor_is_stored_by_rows() {
    let gaussian =
        Gaussian::new(vec![0.0; 2], Factor::Lower(Lower::new(2, vec![1.0, 2.0, 0.0, 3.0]).unwrap())).unwrap();
    let bytes = Arrays { gaussian, vectors: [].into() }.encode().unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let text = std::str::from_utf8(&bytes[8..8 + header]).unwrap();
    assert!(text.contains(r#""factor":{"dtype":"F64","shape":[2,2],"data_offsets":[0,32]}"#), "{text}");
    let values: Vec<f64> =
        bytes[8 + header..][..32].as_chunks().0.iter().map(|w| f64::from_le_bytes(*w)).collect();
    assert_eq!(values, [1.0, 0.0, 2.0, 3.0]);
}

#[test]
fn damaged_arrays_are_refused_without_panic() {
    let mut refused = 0;
    for gaussian in gaussians() {
        let bytes = Arrays { gaussian, vectors: [("v".to_string(), vec![1.0])].into() }.encode().unwrap();
        for length in 0..bytes.len() {
            assert!(Arrays::decode(&bytes[..length]).is_err(), "{length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Arrays::decode(&longer).is_err());
        // flips may give another legal Gaussian, but never a panic, and never a number that is not finite
        for bit in 0..8 * bytes.len() {
            let mut garbled = bytes.clone();
            garbled[bit / 8] ^= 1 << (bit % 8);
            match Arrays::decode(&garbled) {
                Ok(arrays) => assert!(arrays.gaussian.mean().iter().all(|x| x.is_finite())),
                Err(_) => refused += 1,
            }
        }
        // every way to write other words into the header, of the same length
        for (from, to) in [
            ("[3,3]", "[1,9]"),
            ("[3,3]", "[9,1]"),
            ("\"F64\"", "\"I64\""),
            ("lower-triangular", "pattern-lower-tr"),
            ("symmetric", "symmetrix"),
            ("[1,1,1]", "[1,1,2]"),
            ("[1,1,1]", "[0,1,2]"),
            ("[null,0,0]", "[null,0,9]"),
            ("[null,0,0]", "[null,1,0]"),
            ("version\\\":1", "version\\\":2"),
        ] {
            let Some(place) = bytes.windows(from.len()).position(|w| w == from.as_bytes()) else { continue };
            let mut other = bytes.clone();
            other[place..place + from.len()].copy_from_slice(to.as_bytes());
            let error = Arrays::decode(&other).unwrap_err();
            assert!(!error.is_empty(), "{from} → {to}");
        }
    }
    assert!(refused > 1000);
    let nan = f64::NAN.to_le_bytes();
    for k in 0..2 {
        let gaussian = gaussians().remove(k);
        let mut bytes = Arrays { gaussian, vectors: [("v".to_string(), vec![1.0])].into() }.encode().unwrap();
        let end = bytes.len();
        // the vector, the mean, the factor
        for place in [end - 8, end - 16, end - 40] {
            let old: [u8; 8] = bytes[place..place + 8].try_into().unwrap();
            bytes[place..place + 8].copy_from_slice(&nan);
            assert!(Arrays::decode(&bytes).unwrap_err().contains("NaN"));
            bytes[place..place + 8].copy_from_slice(&old);
        }
    }
    let nan = Arrays { gaussian: gaussians().remove(0), vectors: [("v".to_string(), vec![f64::NAN])].into() };
    assert!(nan.encode().is_err());
}

/// Sizes that overflow, an empty mean and strange tensors are refused before anything is computed from them.
#[test]
fn hostile_headers_are_refused() {
    let file = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; data]);
        bytes
    };
    let metadata = |inner: &str| format!(r#""__metadata__":{{"certus":"{}"}}"#, inner.replace('"', "\\\""));
    let huge = metadata(
        r#"{"version":1,"family":"pattern","sizes":[18446744073709551615,2],"parents":[null,null]}"#,
    );
    let one = r#""mean":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"factor":{"dtype":"F64","shape":[1],"data_offsets":[8,16]}"#;
    let error = Arrays::decode(&file(&format!("{{{huge},{one}}}"), 16)).unwrap_err();
    assert!(error.contains("add up"), "{error}");
    let none = r#""mean":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},"factor":{"dtype":"F64","shape":[0,0],"data_offsets":[0,0]}"#;
    let lower = metadata(r#"{"version":1,"family":"lower-triangular"}"#);
    assert!(Arrays::decode(&file(&format!("{{{lower},{none}}}"), 0)).unwrap_err().contains("no entries"));
    assert!(Arrays::decode(&file(&format!("{{{one}}}"), 16)).unwrap_err().contains("metadata"));
    let strange = one.replace("factor", "strange");
    assert!(Arrays::decode(&file(&format!("{{{lower},{strange}}}"), 16)).is_err());
}
