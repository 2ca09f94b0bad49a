//! Checkpoints are whole or refused, and a crash at any moment leaves one.

use super::*;
use crate::directory::CHECKPOINTS;
use crate::error::ErrorKind;
use crate::file_system::simulated::{Failing, Simulated, crashes, restore, tree};

fn directory(name: &str) -> FitDirectory {
    let path = std::env::temp_dir().join(format!("certus-fit-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    FitDirectory::create(&path, false).unwrap()
}

fn example(generation: u64) -> Checkpoint {
    let fingerprint = Fingerprint::of([b"settings".as_slice(), b"data"]);
    Checkpoint { kind: Kind::Model, generation, fingerprint, state: (0..37).collect() }
}

/// The file's layout is a contract; SHA-256 of nothing is the oracle for the fingerprint's hash.
#[test]
fn the_layout_is_the_documented_one() {
    let checkpoint = example(258);
    let bytes = checkpoint.encode();
    assert_eq!(bytes.len(), 104 + 37);
    assert_eq!(&bytes[..16], b"certus.checkpoin");
    assert_eq!(bytes[16..40], [1, 0, 0, 0, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[40..72], checkpoint.fingerprint.0);
    assert_eq!(Checkpoint::decode(&bytes), Ok(checkpoint));
    let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(Fingerprint::of([]).to_string(), nothing);
    assert_ne!(Fingerprint::of([b"ab".as_slice(), b"c"]), Fingerprint::of([b"a".as_slice(), b"bc"]));
    // a part of zeros is not two empty ones
    assert_ne!(Fingerprint::of([[0; 8].as_slice()]), Fingerprint::of([[].as_slice(), &[]]));
}

#[test]
fn every_truncation_every_flipped_bit_and_every_extra_byte_is_refused() {
    let bytes = example(1).encode();
    for length in 0..bytes.len() {
        assert!(Checkpoint::decode(&bytes[..length]).is_err(), "{length}");
    }
    for bit in 0..8 * bytes.len() {
        let mut garbled = bytes.clone();
        garbled[bit / 8] ^= 1 << (bit % 8);
        assert!(Checkpoint::decode(&garbled).is_err(), "bit {bit}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(Checkpoint::decode(&longer).is_err());
    // each field of the header is checked though the sum is right
    for (place, reason) in [
        (0, "it does not start with the magic word"),
        (16, "it was written by another version"),
        (20, "its kind is unknown"),
        (32, "its length is not the one in its header"),
    ] {
        let mut strange = example(1).encode();
        strange[place] += 6;
        let sum = check_sum(&strange[..SUMMED], &strange[HEADER..]);
        strange[SUMMED..HEADER].copy_from_slice(&sum);
        assert_eq!(Checkpoint::decode(&strange), Err(reason));
    }
}

#[test]
fn two_generations_alternate() {
    let folder = directory("alternate");
    let fingerprint = Fingerprint::of([b"one".as_slice()]);
    let mut checkpoints = Checkpoints::new(&folder, Kind::Auto, fingerprint);
    assert_eq!(checkpoints.latest().unwrap_err().kind(), ErrorKind::NotFound);
    for k in 1..=5u8 {
        checkpoints.write(&[k]).unwrap();
        let latest = checkpoints.latest().unwrap();
        assert_eq!((latest.checkpoint.state, latest.note), (vec![k], None));
        let there = |g: u8| {
            Checkpoint::decode(&fs::read(folder.run_file(CHECKPOINTS[usize::from(g % 2)])).unwrap()).unwrap()
        };
        assert_eq!(there(k).generation, u64::from(k));
        assert!(k == 1 || there(k - 1).state == [k - 1]);
        // a new process goes on counting
        checkpoints = Checkpoints::new(&folder, Kind::Auto, fingerprint);
        assert_eq!(checkpoints.generation, u64::from(k));
    }
    // the newest is damaged: the one before it, with a note, and the damaged one is written over
    let newest = folder.run_file(CHECKPOINTS[1]);
    fs::write(&newest, b"rubbish").unwrap();
    let latest = checkpoints.latest().unwrap();
    assert_eq!(latest.checkpoint.state, [4]);
    assert!(latest.note.unwrap().contains("checkpoint.1 is damaged"));
    let mut checkpoints = Checkpoints::new(&folder, Kind::Auto, fingerprint);
    checkpoints.write(&[6]).unwrap();
    assert_eq!(Checkpoint::decode(&fs::read(&newest).unwrap()).unwrap().state, [6]);
    assert_eq!(Checkpoint::decode(&fs::read(folder.run_file(CHECKPOINTS[0])).unwrap()).unwrap().state, [4]);
    // both are damaged
    CHECKPOINTS.iter().for_each(|name| fs::write(folder.run_file(name), b"").unwrap());
    let error = checkpoints.latest().unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }) && error.kind() == ErrorKind::Data, "{error}");
    fs::remove_dir_all(folder.path()).unwrap();
}

#[test]
fn a_checkpoint_of_another_fit_is_refused() {
    let folder = directory("foreign");
    let [one, two] = [b"one".as_slice(), b"two"].map(|part| Fingerprint::of([part]));
    Checkpoints::new(&folder, Kind::Auto, one).write(b"state").unwrap();
    for (kind, fingerprint) in [(Kind::Auto, two), (Kind::Model, one)] {
        let error = Checkpoints::new(&folder, kind, fingerprint).latest().unwrap_err();
        assert!(matches!(error, Error::AnotherFit { .. }), "{error}");
    }
    fs::remove_dir_all(folder.path()).unwrap();
}

/// The machine stops at any moment of a write, and what was not flushed is lost, torn or there: a whole generation is
/// found, and it is the last one whose write ended or the one that was being written. The same if operations fail.
#[test]
fn every_crash_and_every_failure_leaves_a_whole_generation() {
    let fingerprint = Fingerprint::of([b"crash".as_slice()]);
    let survivor = |folder: &FitDirectory| match Checkpoints::new(folder, Kind::Plan, fingerprint).latest() {
        Ok(latest) => latest.checkpoint.state[0],
        Err(Error::Missing { .. } | Error::Damaged { .. }) => 0,
        Err(other) => panic!("{other}"),
    };
    let mut count = 0;
    for before in 0..=3u8 {
        let folder = directory(&format!("crash-{before}"));
        let root = folder.path().to_path_buf();
        let mut checkpoints = Checkpoints::new(&folder, Kind::Plan, fingerprint);
        (1..=before).for_each(|k| checkpoints.write(&[k; 50]).unwrap());
        let there = tree(&root);
        let write = |failing: Failing| {
            restore(&root, &there);
            let disk = Simulated::new(failing);
            let mut checkpoints = Checkpoints::new(&folder, Kind::Plan, fingerprint);
            checkpoints.disk = Arc::new(disk.clone());
            (checkpoints.write(&[99; 50]), disk)
        };
        let (written, disk) = write(Failing::Never);
        written.unwrap();
        let operations = disk.asked();
        count += crashes(&root, &there, &disk, &mut |state, done| {
            restore(&root, state);
            let found = survivor(&folder);
            assert!(found == 99 || found == before, "{done}: {found}");
            assert!(done < operations || found == 99, "its write had ended");
            // the next process goes on as if nothing had happened
            let mut again = Checkpoints::new(&folder, Kind::Plan, fingerprint);
            again.write(&[77; 50]).unwrap();
            assert_eq!(survivor(&folder), 77);
        });
        for n in 0..operations {
            for failing in [Failing::At(n), Failing::From(n)] {
                let (written, _) = write(failing);
                assert!(written.is_err(), "{failing:?}");
                let found = survivor(&folder);
                assert!(found == 99 || found == before, "{failing:?}: {found}");
            }
        }
        // a disk that reorders: the name is there, its bytes are not all
        let target = folder.run_file(CHECKPOINTS[usize::from((before + 1) % 2)]);
        let generation = u64::from(before) + 1;
        let whole = Checkpoint { generation, fingerprint, kind: Kind::Plan, state: vec![99; 50] }.encode();
        restore(&root, &there);
        for length in 0..whole.len() {
            fs::write(&target, &whole[..length]).unwrap();
            assert_eq!(survivor(&folder), before, "{length} bytes");
        }
        fs::remove_dir_all(folder.path()).unwrap();
    }
    println!("{count} crash states of checkpoints");
    assert!(count >= 20, "{count}");
}

#[test]
fn a_failed_write_says_so_and_leaves_nothing_behind() {
    let folder = directory("failed");
    let mut checkpoints = Checkpoints::new(&folder, Kind::Plan, Fingerprint::of([]));
    checkpoints.write(b"first").unwrap();
    // a directory stands where the next generation must go
    fs::create_dir(folder.run_file(CHECKPOINTS[0])).unwrap();
    let error = checkpoints.write(b"second").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let mut names: Vec<_> = fs::read_dir(folder.run()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, CHECKPOINTS, "no temporary file is left");
    assert_eq!(checkpoints.latest().unwrap().checkpoint.state, b"first");
    fs::remove_dir_all(folder.path()).unwrap();
}

#[test]
fn the_timer_waits_and_starts_again() {
    let mut timer = Timer::new(Duration::from_secs(3600));
    assert!(!timer.due());
    timer.last -= Duration::from_secs(3600);
    assert!(timer.due() && timer.due(), "it stays due until it is reset");
    timer.reset();
    assert!(!timer.due());
    assert!(Timer::new(Duration::ZERO).due());
}
