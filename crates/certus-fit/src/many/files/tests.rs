//! Many fits are replaced as a whole.

use super::*;
use crate::file_system::simulated::{Failing, Simulated, crashes, listed, restore, tree};

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

/// The machine stops at any moment at which fits replace others: the old ones or the new ones are there, whole, and the
/// new ones can be made or are complete.
#[test]
fn every_crash_leaves_the_old_fits_or_the_new_ones() {
    let root = std::env::temp_dir().join(format!("certus-fit-many-crash-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    let path = root.join("fits");
    made(&path, "old");
    assert_eq!(seen(&path), "old");
    // one more member than the new ones have
    let before = tree(&root);
    let replace = |disk: &Simulated| -> Result<(), Error> {
        let disk = Arc::new(disk.clone());
        let directory = ManyDirectory::begin_on(disk, &path, &manifest("new"), false, true)?;
        directory.write_chunk(0, &chunk("new", 2))?;
        directory.write_chunk(1, &chunk("new", 1))?;
        directory.collect(&manifest("new"), &mut |_| ()).map(|missing| missing.unwrap())
    };
    // what is complete, and that the new ones can be made from it
    let left = |done: &str| {
        let complete =
            path.join(RUN).join(manifest::MANIFEST).exists() || read(&path).unwrap().fingerprint == "new";
        if complete {
            assert_eq!(seen(&path), "new", "{done}");
        } else {
            assert_eq!(read(&path).unwrap().fingerprint, "old", "{done}");
            let at_rest = ManyDirectory::at(Arc::new(Disk), &path);
            at_rest.check().unwrap_or_else(|e| panic!("{e}: {done}"));
            made(&path, "new");
            assert_eq!(seen(&path), "new", "{done}");
        }
        complete
    };
    let disk = Simulated::new(Failing::Never);
    replace(&disk).unwrap();
    let (all, mut old, mut new) = (disk.asked(), 0, 0);
    let count = crashes(&root, &before, &disk, &mut |state, done| {
        restore(&root, state);
        *(if left(&format!("{done}:\n{}", listed(state))) { &mut new } else { &mut old }) += 1;
    });
    println!("{count} crash states: {old} with the old fits, {new} with the new ones");
    assert!(old > 20 && new > 20 && old + new == count, "{old} {new} {count}");
    for n in 0..all {
        for failing in [Failing::At(n), Failing::From(n)] {
            restore(&root, &before);
            let ended = replace(&Simulated::new(failing));
            let complete = left(&format!("{failing:?}"));
            assert!(ended.is_err() || complete, "{failing:?}: a success without a result");
        }
    }
    fs::remove_dir_all(&root).unwrap();
}
