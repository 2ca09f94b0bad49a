//! Many fits on disk: chunks that are whole or not there, a table that reads back to the bit, directories that are not
//! ours.
#![allow(clippy::unwrap_used)]

use crate::common::fresh;
use certus_fit::ErrorKind;
use certus_fit::many::files::{Chunk, FITS, GroupResult, Key, MANIFEST, Manifest, ManyDirectory};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

fn manifest(groups: usize) -> Manifest {
    Manifest {
        version: Manifest::VERSION,
        settings: serde_json::json!({ "model": "logistic" }),
        fingerprint: format!("f{groups}"),
        by: "store".into(),
        groups,
        rows: 10 * groups,
        chunk: 2,
        parameters: vec!["(Intercept)".into(), "x".into()],
    }
}

fn result(key: Key, parameters: Vec<Option<[f64; 2]>>) -> GroupResult {
    let fitted = parameters.iter().any(Option::is_some);
    GroupResult {
        key,
        rows: 10,
        status: if fitted { "reached" } else { "user_error" }.into(),
        gap_bound: fitted.then_some(1e-9 / 3.0),
        gap_level: if fitted { "proved" } else { "none" }.into(),
        neg_elbo: fitted.then_some(-0.1),
        message: "words, \"quoted\"".into(),
        parameters,
    }
}

fn chunk(of: &Manifest, names: &[&str], fits: Vec<GroupResult>) -> Chunk {
    let names = names.iter().map(|n| n.to_string()).collect();
    Chunk { of: of.fingerprint.clone(), data: "00ff".into(), names, fits }
}

/// Every row of the table as (name, field).
fn rows(dir: &ManyDirectory) -> Vec<Vec<(String, Field)>> {
    let file = std::fs::File::open(dir.path().join(FITS)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let row =
        |row: parquet::record::Row| row.get_column_iter().map(|(n, f)| (n.clone(), f.clone())).collect();
    reader.get_row_iter(None).unwrap().map(|r| row(r.unwrap())).collect()
}

#[test]
fn a_table_of_all_chunks() {
    let path = fresh("many");
    let of = manifest(3);
    let dir = ManyDirectory::begin(&path, &of, false, false).unwrap();
    let third = 1.0 / 3.0;
    let first = vec![
        result(Key::Number(7.0), vec![Some([third, 0.5]), Some([-2.0, 1e-300]), None]),
        result(Key::Number(8.0), vec![None, None, None]),
    ];
    // another parameter, and another order
    let second = vec![result(Key::Number(9.0), vec![Some([4.0, 5.0]), Some([6.0, 7.0])])];
    dir.write_chunk(1, &chunk(&of, &["x[red]", "(Intercept)"], second)).unwrap();
    assert_eq!(dir.collect(&of, &mut |_| ()).unwrap(), Err(vec![0]));
    assert!(!path.join(FITS).exists());
    dir.write_chunk(0, &chunk(&of, &["(Intercept)", "x", "x[blue]"], first)).unwrap();
    let mut seen = 0;
    assert_eq!(dir.collect(&of, &mut |_| seen += 1).unwrap(), Ok(()));
    let found = rows(&dir);
    assert_eq!((seen, found.len()), (3, 3));
    let names: Vec<&str> = found[0].iter().map(|(n, _)| n.as_str()).collect();
    let head = ["key", "rows", "status", "gap_bound", "gap_level", "neg_elbo", "message"];
    assert_eq!(names[..7], head);
    let parameters = ["(Intercept)", "x", "x[blue]", "x[red]"]
        .iter()
        .flat_map(|n| [format!("mean_{n}"), format!("sd_{n}")]);
    assert_eq!(names[7..], parameters.collect::<Vec<_>>());
    let at = |row: usize, name: &str| found[row].iter().find(|(n, _)| n == name).unwrap().1.clone();
    assert_eq!(at(0, "key"), Field::Long(7));
    assert_eq!((at(0, "mean_(Intercept)"), at(0, "sd_x")), (Field::Double(third), Field::Double(1e-300)));
    assert_eq!((at(0, "gap_bound"), at(1, "gap_bound")), (Field::Double(1e-9 / 3.0), Field::Null));
    assert_eq!((at(1, "mean_x"), at(1, "status")), (Field::Null, Field::Str("user_error".into())));
    assert_eq!((at(2, "mean_x[red]"), at(2, "mean_(Intercept)")), (Field::Double(4.0), Field::Double(6.0)));
    assert_eq!((at(2, "mean_x"), at(0, "message")), (Field::Null, Field::Str("words, \"quoted\"".into())));
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn keys_keep_their_kind() {
    for (keys, first) in [
        (vec![Key::Number(1.5), Key::Number(2.0)], Field::Double(1.5)),
        (vec![Key::Date(3.0), Key::Date(20_772.0)], Field::Date(3)),
        (vec![Key::Date(3.25), Key::Date(4.0)], Field::Str("3.25".into())),
        (vec![Key::Boolean(false), Key::Boolean(true)], Field::Str("false".into())),
        (vec![Key::Text("a/b".into()), Key::Text("é".into())], Field::Str("a/b".into())),
    ] {
        let path = fresh("many-keys");
        let of = manifest(2);
        let dir = ManyDirectory::begin(&path, &of, false, false).unwrap();
        let fits = keys.into_iter().map(|key| result(key, vec![Some([0.0, 1.0])])).collect();
        dir.write_chunk(0, &chunk(&of, &["x"], fits)).unwrap();
        dir.collect(&of, &mut |_| ()).unwrap().unwrap();
        assert_eq!(rows(&dir)[0][0], ("key".to_string(), first));
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn what_is_damaged_or_of_others_is_not_a_chunk() {
    let path = fresh("many-damaged");
    let of = manifest(4);
    let dir = ManyDirectory::begin(&path, &of, true, false).unwrap();
    let two = || vec![result(Key::Number(1.0), vec![]), result(Key::Number(2.0), vec![])];
    dir.write_chunk(0, &chunk(&of, &[], two())).unwrap();
    let there = |k: usize| dir.chunk(&of, k).unwrap().is_some();
    assert!(there(0) && !there(1));
    dir.write_chunk(1, &chunk(&manifest(5), &[], two())).unwrap();
    assert!(!there(1), "of other fits");
    dir.write_chunk(1, &chunk(&of, &[], two()[..1].to_vec())).unwrap();
    assert!(!there(1), "a group is missing");
    dir.write_chunk(1, &chunk(&of, &[], two())).unwrap();
    assert!(there(1));
    // half a file, every flipped bit, another bound, one bound written into a chunk of its own: refused, not made again
    // in silence
    let file = path.join("chunks/000001.json");
    let bytes = std::fs::read(&file).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let mut others: Vec<Vec<u8>> = (0..8 * bytes.len())
        .map(|bit| {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            other
        })
        .collect();
    others.push(b"{\"of\":".to_vec());
    others.push(text.replace("\"gap_bound\":null", "\"gap_bound\":1e-30").into_bytes());
    others.push(text.as_bytes()[..text.find(",\"sha256\"").unwrap()].to_vec());
    for other in others {
        assert_ne!(other, bytes);
        std::fs::write(&file, &other).unwrap();
        for error in [dir.chunk(&of, 1).unwrap_err(), dir.collect(&of, &mut |_| ()).unwrap_err()] {
            assert!(error.kind() == ErrorKind::Data && error.to_string().contains("000001.json"), "{error}");
        }
    }
    std::fs::write(&file, &bytes).unwrap();
    assert!(!path.join(FITS).exists(), "no table was made of them");
    // several may share, one alone may not come between
    let other = ManyDirectory::begin(&path, &of, true, false).unwrap();
    let alone = ManyDirectory::begin(&path, &of, false, false).unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::Output, "{alone}");
    drop((dir, other));
    assert_eq!(
        ManyDirectory::begin(&path, &manifest(5), false, false).unwrap_err().kind(),
        ErrorKind::Output
    );
    std::fs::write(path.join("chunks/.000001.json.1-2-3.tmp"), "").unwrap();
    let fresh_start = ManyDirectory::begin(&path, &manifest(5), false, true).unwrap();
    assert!(fresh_start.chunk(&manifest(5), 0).unwrap().is_none() && path.join(MANIFEST).exists());
    assert_eq!(fresh_start.manifest().unwrap(), manifest(5));
    std::fs::remove_dir_all(&path).unwrap();
}

/// Files of a finished directory are those of its manifest, or refused; a change that is meant needs a new manifest.
#[test]
fn the_finished_table_is_protected() {
    let path = fresh("many-finished");
    let of = manifest(2);
    let dir = ManyDirectory::begin(&path, &of, false, false).unwrap();
    let fits = vec![result(Key::Number(1.0), vec![Some([0.5, 1.0])]), result(Key::Number(2.0), vec![None])];
    dir.write_chunk(0, &chunk(&of, &["x"], fits)).unwrap();
    dir.collect(&of, &mut |_| ()).unwrap().unwrap();
    drop(dir);
    let table = std::fs::read(path.join(FITS)).unwrap();
    for name in [FITS, MANIFEST, "chunks/000000.json", "manifest.json"] {
        let file = path.join(name);
        let bytes = std::fs::read(&file).unwrap();
        for bit in (0..8 * bytes.len()).step_by(37) {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&file, &other).unwrap();
            let opened = ManyDirectory::open(&path).map(|_| ());
            let begun = ManyDirectory::begin(&path, &of, false, false).map(|_| ());
            for error in [opened.unwrap_err(), begun.unwrap_err()] {
                assert_eq!(error.kind(), ErrorKind::Data, "bit {bit} of {name}: {error}");
            }
        }
        std::fs::write(&file, &bytes).unwrap();
        ManyDirectory::open(&path).unwrap().check().unwrap();
    }
    let (file, extra) = (path.join("chunks/000000.json"), path.join("chunks/000001.json"));
    std::fs::copy(&file, &extra).unwrap();
    let error = ManyDirectory::open(&path).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Data && error.to_string().contains("it does not list chunks/000001"),
        "{error}"
    );
    std::fs::remove_file(&extra).unwrap();
    // chunks are not needed any more, and come back with the same bytes
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    ManyDirectory::open(&path).unwrap().check().unwrap();
    std::fs::write(&file, text.replace("\"proved\"", "\"probable\"")).unwrap();
    assert_eq!(ManyDirectory::open(&path).unwrap_err().kind(), ErrorKind::Data);
    certus_fit::rewrite_manifest(&path).unwrap();
    let meant = ManyDirectory::open(&path).unwrap();
    let read = meant.chunk(&meant.manifest().unwrap(), 0).unwrap().unwrap();
    assert_eq!(read.fits[0].gap_level, "probable");
    assert_eq!(std::fs::read(path.join(FITS)).unwrap(), table);
    std::fs::remove_dir_all(&path).unwrap();
}
