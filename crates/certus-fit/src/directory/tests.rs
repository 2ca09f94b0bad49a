//! A result is replaced as a whole whatever happens, and what is not what was written is refused.

use std::collections::BTreeMap;

use super::*;
use crate::atomic::{temporary, write_through};
use crate::checkpoint::{Checkpoints, Fingerprint, Kind};
use crate::error::ErrorKind;
use crate::file_system::simulated::{Failing, Simulated, Tree, crashes, listed, restore, tree};

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("certus-fit-directory-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn content(name: &str, word: &str) -> Vec<u8> {
    format!("{{\"schema\":3,\"{name}\":\"{word}\"}}").into_bytes()
}

fn stage(directory: &FitDirectory, word: &str, names: &[&str]) {
    names.iter().for_each(|name| directory.write(name, &content(name, word)).unwrap());
}

/// A finished fit.
fn fitted(path: &Path, word: &str, names: &[&str]) {
    let directory = FitDirectory::create(path, true).unwrap();
    stage(&directory, word, names);
    directory.commit(false).unwrap();
}

/// What a reader finds: the word that all files hold, and how many there are.
fn seen(path: &Path) -> Result<(String, usize), Error> {
    let directory = FitDirectory::open(path)?;
    let read: BTreeMap<&str, Vec<u8>> =
        RESULT.iter().filter_map(|name| Some((*name, directory.read(name).ok()?))).collect();
    let record: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&read[RECORD]).unwrap();
    let word = record[RECORD].as_str().unwrap().to_string();
    for (name, bytes) in &read {
        assert_eq!(*bytes, content(name, &word), "a mixture");
    }
    Ok((word, read.len()))
}

/// Replaces a result by a shorter one, with a checkpoint on the way; the number of operations before the commit.
fn replace(disk: &Simulated, path: &Path) -> (usize, Result<(), Error>) {
    let run = || {
        let directory = FitDirectory::create_on(Arc::new(disk.clone()), path, true)?;
        directory.write(SETTINGS, &content(SETTINGS, "new"))?;
        // the run goes on without a checkpoint that cannot be written
        let _ = Checkpoints::new(&directory, Kind::Model, Fingerprint::of([])).write(b"state");
        for name in [RECORD, ARRAYS, MEANING] {
            directory.write(name, &content(name, "new"))?;
        }
        Ok(directory)
    };
    let begun = run();
    let staged = disk.asked();
    (staged, begun.and_then(|directory| directory.commit(false)))
}

fn old_fit(name: &str) -> (PathBuf, PathBuf, Tree) {
    let root = folder(name);
    let path = root.join("fit");
    fitted(&path, "old", &RESULT);
    fs::write(path.join(REPORT), "of the old one").unwrap();
    let before = tree(&root);
    (root, path, before)
}

/// The machine stops at any moment of a replacement, and what was not flushed is lost, torn or there. Whoever reads
/// then, with the right to write or without, sees the old result or the new one; the new one once its commit has ended,
/// the old one before it has begun; and the next run can replace it.
#[test]
fn every_crash_leaves_the_old_result_or_the_new_one() {
    let (root, path, before) = old_fit("crash");
    let disk = Simulated::new(Failing::Never);
    let (staged, ended) = replace(&disk, &path);
    ended.unwrap();
    let (mut old, mut new) = (0, 0);
    let count = crashes(&root, &before, &disk, &mut |state, done| {
        restore(&root, state);
        // somebody else holds the lock, so that nothing can be moved
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        let found = seen(&path).unwrap_or_else(|e| panic!("{done}: {e}\n{}", listed(state)));
        drop(held);
        assert_eq!(seen(&path).unwrap(), found, "{done}");
        assert!(!path.join(RUN).join(MANIFEST).exists());
        // the files themselves, for those who read them without us
        let there = |name: &str| fs::read(path.join(name)).ok();
        assert_eq!(there(ARRAYS), Some(content(ARRAYS, &found.0)));
        if found == ("old".to_string(), 5) {
            assert!(done < disk.asked() && there(GROUPS).is_some());
            old += 1;
        } else {
            assert_eq!(found, ("new".to_string(), 4), "{done}");
            assert!(done > staged, "{done} of {staged}");
            assert!(there(GROUPS).is_none() && there(REPORT).is_none(), "a report of another result is left");
            new += 1;
        }
        if (old + new) % 20 == 0 {
            fitted(&path, "next", &RESULT);
            assert_eq!(seen(&path).unwrap(), ("next".to_string(), 5));
            assert!(!path.join(RUN).exists());
        }
    });
    println!("{count} crash states: {old} with the old result, {new} with the new one");
    assert!(old + new == count && old > 50 && new > 50, "{old} {new} {count}");
    fs::remove_dir_all(&root).unwrap();
}

/// Any one operation fails, or all from one on: an error is returned, or the new result is there; otherwise the old one
/// is, and nothing is mixed.
#[test]
fn every_failing_operation_leaves_the_old_result_or_the_new_one() {
    let (root, path, before) = old_fit("failing");
    let disk = Simulated::new(Failing::Never);
    replace(&disk, &path).1.unwrap();
    let all = disk.asked();
    for n in 0..all {
        for failing in [Failing::At(n), Failing::From(n)] {
            restore(&root, &before);
            let ended = replace(&Simulated::new(failing), &path).1;
            let found = seen(&path).unwrap();
            assert!(found == ("old".into(), 5) || found == ("new".into(), 4), "{failing:?}: {found:?}");
            assert!(ended.is_err() || found.0 == "new", "{failing:?}: a success without a result");
            assert!(failing == Failing::At(n) || ended.is_err(), "{failing:?}: the disk is gone");
            fitted(&path, "next", &RESULT);
            assert_eq!(seen(&path).unwrap(), ("next".to_string(), 5), "{failing:?}");
            assert!(!path.join(RUN).exists());
        }
    }
    println!("{all} operations, each of which failed");
    assert!(all > 40, "{all}");
    fs::remove_dir_all(&root).unwrap();
}

/// A run that was killed before its result was complete changes nothing of the one that is there, and is gone on with.
#[test]
fn an_unfinished_run_leaves_the_old_result() {
    let path = folder("unfinished");
    fitted(&path, "old", &RESULT);
    for staged in 0..=3 {
        let directory = FitDirectory::create(&path, true).unwrap();
        stage(&directory, "new", &[SETTINGS, RECORD, ARRAYS][..staged]);
        fs::write(directory.run_file(".fit.json.0123456789abcdef.tmp"), "{\"sch").unwrap();
        drop(directory);
        assert_eq!(seen(&path).unwrap(), ("old".to_string(), 5));
    }
    let directory = FitDirectory::resume(&path).unwrap();
    assert!(directory.replaces() && directory.settings().unwrap() == content(SETTINGS, "new"));
    let left: Vec<_> = fs::read_dir(directory.run()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [SETTINGS], "halves and files of a result that was not complete are removed");
    // a result that can be gone on with keeps its checkpoints, and is then what a run goes on from
    let checkpoint = directory.run_file(CHECKPOINTS[1]);
    fs::write(&checkpoint, "state").unwrap();
    stage(&directory, "part", &[SETTINGS, RECORD]);
    directory.commit(true).unwrap();
    drop(directory);
    assert_eq!(seen(&path).unwrap(), ("part".to_string(), 2));
    let directory = FitDirectory::resume(&path).unwrap();
    assert!(checkpoint.exists() && !directory.replaces() && directory.has_result());
    assert_eq!(directory.settings().unwrap(), content(SETTINGS, "part"));
    stage(&directory, "whole", &RESULT);
    directory.commit(false).unwrap();
    assert_eq!(seen(&path).unwrap(), ("whole".to_string(), 5));
    assert!(!path.join(RUN).exists());
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn every_changed_bit_and_every_missing_or_extra_file_is_refused() {
    let path = folder("changed");
    let four = [RECORD, ARRAYS, SETTINGS, MEANING];
    fitted(&path, "true", &four);
    let refused = |what: &str, file: &str| {
        for error in
            [FitDirectory::open(&path).expect_err(what), FitDirectory::resume(&path).expect_err(what)]
        {
            assert_eq!(error.kind(), ErrorKind::Data, "{what}: {error}");
            assert!(error.to_string().contains(file), "{what}: {error}");
        }
    };
    for name in four.into_iter().chain([MANIFEST]) {
        let file = path.join(name);
        let bytes = fs::read(&file).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, other).unwrap();
            refused(&format!("bit {bit} of {name}"), "");
        }
        // the last byte of the manifest ends its last line
        fs::write(&file, &bytes[..bytes.len() - 2]).unwrap();
        refused("cut", if name == MANIFEST { "" } else { name });
        fs::remove_file(&file).unwrap();
        refused("removed", if name == MANIFEST { "manifest.json has changed" } else { name });
        fs::write(&file, &bytes).unwrap();
        assert!(seen(&path).is_ok());
    }
    fs::write(path.join(GROUPS), "from elsewhere").unwrap();
    refused("added", GROUPS);
    fs::remove_file(path.join(GROUPS)).unwrap();
    // what is replaced between two reads is not taken for damage, and never mixed
    let reader = FitDirectory::open(&path).unwrap();
    fitted(&path, "other", &four);
    let error = reader.read(ARRAYS).unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
    // a change that is meant
    fs::write(path.join(ARRAYS), content(ARRAYS, "meant")).unwrap();
    refused("not yet said", ARRAYS);
    crate::rewrite_manifest(&path).unwrap();
    assert_eq!(FitDirectory::open(&path).unwrap().read(ARRAYS).unwrap(), content(ARRAYS, "meant"));
    // names that lead elsewhere are not opened
    let manifest = fs::read_to_string(path.join(MANIFEST)).unwrap();
    fs::write(path.join(MANIFEST), manifest.replace(MEANING, "../x")).unwrap();
    refused("a path", "'../x'");
    fs::remove_file(path.join(RECORD)).unwrap();
    crate::rewrite_manifest(&path).unwrap();
    refused("no record", "it lists no fit.json");
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn fits_from_before_there_were_manifests_are_read_with_a_note() {
    let path = folder("before");
    fs::create_dir(&path).unwrap();
    for (schema, fine) in [(1, true), (2, true), (3, false), (4, false)] {
        fs::write(path.join(RECORD), format!("{{\"schema\":{schema}}}")).unwrap();
        match FitDirectory::open(&path) {
            Ok(directory) => assert!(fine && directory.note().unwrap().contains("not checked")),
            Err(error) => {
                assert!(!fine && error.to_string().contains("manifest.json has changed"), "{error}")
            }
        }
    }
    // the layout of unfinished runs then
    fs::remove_file(path.join(RECORD)).unwrap();
    fs::write(path.join(SETTINGS), "{}").unwrap();
    fs::write(path.join(CHECKPOINTS[0]), "state").unwrap();
    assert_eq!(FitDirectory::open(&path).unwrap().read(RECORD).unwrap_err().kind(), ErrorKind::NotFound);
    let directory = FitDirectory::resume(&path).unwrap();
    assert_eq!(directory.settings().unwrap(), b"{}");
    assert!(directory.run_file(CHECKPOINTS[0]).exists() && !path.join(CHECKPOINTS[0]).exists());
    drop(directory);
    fs::remove_dir_all(&path).unwrap();
    // now: what to do about a run that has no result yet, and of which nothing is known
    let directory = FitDirectory::create(&path, false).unwrap();
    assert!(matches!(directory.settings().unwrap_err(), Error::Missing { .. }));
    stage(&directory, "begun", &[SETTINGS]);
    let unfinished = FitDirectory::open(&path).unwrap().read(RECORD).unwrap_err();
    assert!(unfinished.to_string().contains("certus resume"), "{unfinished}");
    drop(directory);
    // a place for runs that leads elsewhere is not emptied
    #[cfg(unix)]
    {
        fs::remove_dir_all(path.join(RUN)).unwrap();
        let other = folder("elsewhere");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mine"), "keep me").unwrap();
        std::os::unix::fs::symlink(&other, path.join(RUN)).unwrap();
        assert_eq!(FitDirectory::create(&path, true).unwrap_err().kind(), ErrorKind::Data);
        assert_eq!(fs::read(other.join("mine")).unwrap(), b"keep me");
        fs::remove_dir_all(&other).unwrap();
    }
    fs::remove_dir_all(&path).unwrap();
}

/// Nobody can lay a link where a temporary file will be, and a new file replaces nothing.
#[test]
fn temporary_names_are_random_and_exclusive() {
    let path = folder("names");
    fs::create_dir(&path).unwrap();
    let (victim, to) = (path.join("victim"), path.join("draws.csv"));
    fs::write(&victim, "mine").unwrap();
    assert_ne!(temporary(&to), temporary(&to));
    #[cfg(unix)]
    {
        let half = temporary(&to);
        std::os::unix::fs::symlink(&victim, &half).unwrap();
        let error = write_through(&Disk, &to, &half, b"new").unwrap_err();
        assert!(
            matches!(&error, Error::Write { source, .. } if source.kind() == io::ErrorKind::AlreadyExists)
        );
        assert!(fs::symlink_metadata(&half).is_ok(), "what another process laid there stays");
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        fs::remove_file(half).unwrap();
        // a link at the place itself is not followed either
        std::os::unix::fs::symlink(path.join("nowhere"), &to).unwrap();
        assert_eq!(write_new(&to, b"new").unwrap_err().kind(), ErrorKind::Output);
        fs::remove_file(&to).unwrap();
    }
    write_new(&to, b"new").unwrap();
    assert_eq!(write_new(&to, b"newer").unwrap_err().kind(), ErrorKind::Output);
    assert_eq!(fs::read(&to).unwrap(), b"new");
    assert_eq!(write_new(&path.join("no/such"), b"x").unwrap_err().kind(), ErrorKind::Io);
    let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["draws.csv", "victim"], "no temporary file is left");
    fs::remove_dir_all(&path).unwrap();
}
