//! Many fits are replaced as a whole.

use super::*;

fn manifest(word: &str) -> Manifest {
    Manifest {
        version: VERSION,
        settings: serde_json::json!({}),
        fingerprint: word.into(),
        by: "store".into(),
        groups: 3,
        rows: 9,
        chunk: 2,
        parameters: vec!["x".into()],
    }
}

fn chunk(word: &str, groups: usize) -> Chunk {
    let fit = |k: usize| GroupResult {
        key: Key::Number(k as f64),
        rows: 3,
        status: "reached".into(),
        gap_bound: Some(1e-3),
        gap_level: "proved".into(),
        neg_elbo: Some(1.0),
        message: word.into(),
        parameters: vec![Some([0.5, 1.5])],
    };
    Chunk {
        of: word.into(),
        data: "0f".into(),
        names: vec!["x".into()],
        fits: (0..groups).map(fit).collect(),
    }
}

fn begun(path: &Path, word: &str) -> ManyDirectory {
    let directory = ManyDirectory::begin(path, &manifest(word), false, true).unwrap();
    directory.write_chunk(0, &chunk(word, 2)).unwrap();
    directory.write_chunk(1, &chunk(word, 1)).unwrap();
    directory
}

fn made(path: &Path, word: &str) {
    assert_eq!(begun(path, word).collect(&manifest(word), &mut |_| ()).unwrap(), Ok(()));
}

/// The word that everything in the directory holds.
fn seen(path: &Path) -> String {
    let directory = ManyDirectory::open(path).unwrap();
    directory.check().unwrap();
    let manifest = directory.manifest().unwrap();
    for k in 0..2 {
        assert_eq!(directory.chunk(&manifest, k).unwrap(), Some(chunk(&manifest.fingerprint, 2 - k)));
    }
    manifest.fingerprint
}

#[test]
fn a_crash_at_any_step_leaves_the_old_fits_or_the_new_ones() {
    let path = std::env::temp_dir().join(format!("certus-fit-many-crash-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut count = 0;
    for at in 0.. {
        made(&path, "old");
        assert_eq!(seen(&path), "old");
        let directory = begun(&path, "new");
        assert_eq!(fs::read_dir(path.join(CHUNKS)).unwrap().count(), 2, "the old ones stay");
        directory.check().unwrap();
        count = 0;
        let ended = directory.publish(b"table", &mut |_| {
            count += 1;
            if count == at + 1 { Err(io::Error::other("crash")) } else { Ok(()) }
        });
        drop(directory);
        let complete = path.join(RUN).join(manifest::MANIFEST).exists() || count > 1;
        if complete {
            assert_eq!(seen(&path), "new", "{at}");
            assert_eq!(fs::read(path.join(FITS)).unwrap(), b"table");
        } else {
            // what is there is the old, and what goes on is the new
            assert_eq!(read(&path).unwrap().fingerprint, "old");
            let again = ManyDirectory::begin(&path, &manifest("new"), false, false).unwrap();
            again.check().unwrap();
            assert_eq!(again.collect(&manifest("new"), &mut |_| ()).unwrap(), Ok(()));
            assert_eq!(seen(&path), "new");
        }
        if ended.is_ok() {
            assert!(!path.join(RUN).exists());
            break;
        }
    }
    assert!(count >= 9, "{count}");
    fs::remove_dir_all(&path).unwrap();
}
