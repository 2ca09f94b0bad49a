//! Disks that fail and machines that stop: a file system that keeps a log, and every state in which a crash can leave
//! the files of that log.
//!
//! The model is the weakest that journaling file systems promise. A crash may come after any operation. Then the bytes
//! of a file are those of its last flush, or nothing, or half, or all of what was written since; and every name that
//! was made, moved or removed since its directory was last flushed is as before or as after, each by itself. Only a
//! renaming is one change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Disk, FileSystem, NewFile};
use crate::atomic::parent_of;

/// Which file.
type Inode = usize;

#[derive(Clone, Debug)]
enum Operation {
    CreateDir(PathBuf),
    Create(PathBuf, Inode),
    Write(Inode, Vec<u8>),
    Sync(Inode),
    Rename(PathBuf, PathBuf),
    RemoveFile(PathBuf),
    RemoveDir(PathBuf),
    SyncDirectory(PathBuf),
}

/// When operations fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    Never,
    /// The operation of this number, from 0.
    At(usize),
    /// That one and all after it: the disk is gone.
    From(usize),
}

#[derive(Debug)]
struct Log {
    operations: Vec<Operation>,
    failing: Failing,
    /// Operations that were asked for.
    asked: usize,
    files: usize,
}

/// The disk with a log, which can fail.
#[derive(Clone, Debug)]
pub(crate) struct Simulated(Arc<Mutex<Log>>);

impl Simulated {
    pub(crate) fn new(failing: Failing) -> Self {
        Self(Arc::new(Mutex::new(Log { operations: Vec::new(), failing, asked: 0, files: 0 })))
    }

    /// How many operations were asked for.
    pub(crate) fn asked(&self) -> usize {
        self.0.lock().unwrap().asked
    }

    fn done(&self, operation: Operation, apply: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut log = self.0.lock().unwrap();
        let number = log.asked;
        log.asked += 1;
        let fails = match log.failing {
            Failing::Never => false,
            Failing::At(n) => number == n,
            Failing::From(n) => number >= n,
        };
        if fails {
            return Err(io::Error::other("the disk has failed"));
        }
        apply()?;
        log.operations.push(operation);
        Ok(())
    }
}

struct Writing {
    file: Box<dyn NewFile>,
    inode: Inode,
    log: Simulated,
}

impl Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = &mut self.file;
        self.log.done(Operation::Write(self.inode, bytes.to_vec()), || file.write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewFile for Writing {
    fn sync(&mut self) -> io::Result<()> {
        // not on the disk of this machine, which would take its time
        self.log.done(Operation::Sync(self.inode), || Ok(()))
    }
}

impl FileSystem for Simulated {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let inode = {
            let mut log = self.0.lock().unwrap();
            log.files += 1;
            log.files
        };
        let mut made = None;
        self.done(Operation::Create(path.into(), inode), || {
            made = Some(Disk.create(path)?);
            Ok(())
        })?;
        Ok(Box::new(Writing { file: made.expect("made above"), inode, log: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.done(Operation::Rename(from.into(), to.into()), || Disk.rename(from, to))
    }

    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        unimplemented!("nothing that is made of several files has links")
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.done(Operation::RemoveFile(path.into()), || Disk.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.done(Operation::RemoveDir(path.into()), || Disk.remove_dir(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.done(Operation::CreateDir(path.into()), || Disk.create_dir(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.done(Operation::SyncDirectory(path.into()), || Ok(()))
    }
}

/// Names and bytes below a directory; `None` is a directory.
pub(crate) type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// What is below a directory now.
pub(crate) fn tree(root: &Path) -> Tree {
    let mut out = Tree::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path.clone());
                out.insert(path, None);
            } else {
                let bytes = fs::read(&path).unwrap();
                out.insert(path, Some(bytes));
            }
        }
    }
    out
}

/// A tree in words, for the message of a test that fails.
pub(crate) fn listed(tree: &Tree) -> String {
    let line = |(path, bytes): (&PathBuf, &Option<Vec<u8>>)| match bytes {
        None => format!("{}/", path.display()),
        Some(bytes) => {
            format!("{}: {}", path.display(), String::from_utf8_lossy(&bytes[..bytes.len().min(80)]))
        }
    };
    tree.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Puts a tree in the place of what is below a directory.
pub(crate) fn restore(root: &Path, tree: &Tree) {
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root).unwrap();
    for (path, bytes) in tree {
        match bytes {
            None => fs::create_dir_all(path).unwrap(),
            Some(bytes) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
        }
    }
}

/// What stands under a name: a directory, a file of before, or a file of the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Directory,
    Old(Vec<u8>),
    New(Inode),
}

type Names = BTreeMap<PathBuf, Node>;

/// A change of a name, with what it puts there.
#[derive(Clone, Debug)]
enum Change {
    Put(PathBuf, Node),
    Move(PathBuf, PathBuf, Node),
    Take(PathBuf),
}

impl Change {
    /// The directories, of which the flush of any makes it durable.
    fn places(&self) -> Vec<&Path> {
        match self {
            Change::Put(path, _) | Change::Take(path) => vec![parent_of(path)],
            Change::Move(from, to, _) => vec![parent_of(from), parent_of(to)],
        }
    }

    /// An earlier change after this one is durable: what was changed below a directory is gone with it, or has moved
    /// with it.
    fn then(&self, earlier: Change) -> Option<Change> {
        let below = |path: &Path, directory: &Path| path != directory && path.starts_with(directory);
        let place = |path: PathBuf| match self {
            Change::Take(gone) | Change::Move(_, gone, _) if below(&path, gone) => None,
            Change::Move(from, to, _) if below(&path, from) => {
                Some(to.join(path.strip_prefix(from).expect("it is below")))
            }
            _ => Some(path),
        };
        Some(match earlier {
            Change::Put(path, node) => Change::Put(place(path)?, node),
            Change::Take(path) => Change::Take(place(path)?),
            Change::Move(from, to, node) => Change::Move(place(from)?, place(to)?, node),
        })
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Change::Put(path, node) => drop(names.insert(path.clone(), node.clone())),
            Change::Take(path) => names.retain(|name, _| !name.starts_with(path)),
            Change::Move(from, to, node) => {
                names.retain(|name, _| !name.starts_with(to));
                let moved: Vec<PathBuf> = names.keys().filter(|p| p.starts_with(from)).cloned().collect();
                for path in moved {
                    let below = names.remove(&path).expect("it was listed");
                    let rest = path.strip_prefix(from).expect("it is below");
                    if !rest.as_os_str().is_empty() {
                        names.insert(to.join(rest), below);
                    }
                }
                names.insert(to.clone(), node.clone());
            }
        }
    }
}

/// Calls `visit` with every state in which a crash can leave the files below `root` that were `before`, once each, and
/// with the least number of operations after which it can; returns how many states there are.
pub(crate) fn crashes(
    root: &Path,
    before: &Tree,
    log: &Simulated,
    visit: &mut dyn FnMut(&Tree, usize),
) -> usize {
    let operations = log.0.lock().unwrap().operations.clone();
    let old = |bytes: &Option<Vec<u8>>| bytes.clone().map_or(Node::Directory, Node::Old);
    let mut durable: Names = before.iter().map(|(path, bytes)| (path.clone(), old(bytes))).collect();
    let mut volatile = durable.clone();
    let mut pending: Vec<Change> = Vec::new();
    // of every file: what is written, and how much of it is flushed
    let mut written: HashMap<Inode, (Vec<u8>, usize)> = HashMap::new();
    let mut seen: BTreeSet<Tree> = BTreeSet::new();
    for done in 0..=operations.len() {
        states(root, &durable, &pending, &written, &mut |state| {
            if !seen.contains(&state) {
                visit(&state, done);
                seen.insert(state);
            }
        });
        let Some(operation) = operations.get(done) else { break };
        let change = match operation {
            Operation::CreateDir(path) => Change::Put(path.clone(), Node::Directory),
            Operation::Create(path, inode) => {
                written.insert(*inode, (Vec::new(), 0));
                Change::Put(path.clone(), Node::New(*inode))
            }
            Operation::Rename(from, to) => {
                Change::Move(from.clone(), to.clone(), volatile.get(from).expect("it was renamed").clone())
            }
            Operation::RemoveFile(path) | Operation::RemoveDir(path) => Change::Take(path.clone()),
            Operation::Write(inode, bytes) => {
                written.get_mut(inode).expect("it was made").0.extend(bytes);
                continue;
            }
            Operation::Sync(inode) => {
                let (bytes, flushed) = written.get_mut(inode).expect("it was made");
                *flushed = bytes.len();
                continue;
            }
            Operation::SyncDirectory(path) => {
                let mut later = Vec::new();
                for change in pending {
                    if change.places().contains(&path.as_path()) {
                        change.apply(&mut durable);
                        later = later.into_iter().filter_map(|earlier| change.then(earlier)).collect();
                    } else {
                        later.push(change);
                    }
                }
                pending = later;
                continue;
            }
        };
        change.apply(&mut volatile);
        pending.push(change);
    }
    seen.len()
}

/// The states of one moment.
fn states(
    root: &Path,
    durable: &Names,
    pending: &[Change],
    written: &HashMap<Inode, (Vec<u8>, usize)>,
    visit: &mut dyn FnMut(Tree),
) {
    assert!(pending.len() <= 16, "too many names between two flushes to try all: {pending:?}");
    for chosen in 0..1_u32 << pending.len() {
        let mut names = durable.clone();
        let chosen = pending.iter().enumerate().filter(|(k, _)| chosen >> k & 1 == 1);
        chosen.for_each(|(_, change)| change.apply(&mut names));
        // a name in a directory that is not there leads nowhere
        let lost = |path: &Path| {
            let mut above = path.ancestors().skip(1).take_while(|directory| *directory != root);
            above.any(|directory| names.get(directory) != Some(&Node::Directory))
        };
        let there: Names =
            names.iter().filter(|(p, _)| !lost(p)).map(|(p, n)| (p.clone(), n.clone())).collect();
        let open: Vec<Inode> = there
            .values()
            .filter_map(|node| match node {
                Node::New(inode) => Some(*inode),
                _ => None,
            })
            .filter(|inode| written[inode].1 < written[inode].0.len())
            .collect();
        for torn in 0..3_usize.pow(open.len() as u32) {
            let bytes = |inode: &Inode| {
                let (bytes, flushed) = &written[inode];
                let left = bytes.len() - flushed;
                let part =
                    open.iter().position(|o| o == inode).map_or(2, |k| torn / 3_usize.pow(k as u32) % 3);
                bytes[..flushed + left * part / 2].to_vec()
            };
            visit(
                there
                    .iter()
                    .map(|(path, node)| {
                        let bytes = match node {
                            Node::Directory => None,
                            Node::Old(bytes) => Some(bytes.clone()),
                            Node::New(inode) => Some(bytes(inode)),
                        };
                        (path.clone(), bytes)
                    })
                    .collect(),
            );
        }
    }
}
