//! Many models from one table: each with the bits of a table of its own rows, whatever the order, the threads and the
//! memory.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Mutex;

use certus::Goal;
use certus_data::{Column, Features, Spec, Storage, Table};
use certus_fit::many::{Chunks, GroupFit, Key, Many, ManyObserver, ManySettings, ManyStatus};
use certus_fit::{MethodChoice, Numbers, Problem, Request};
use certus_likelihood::Response;

fn wave(k: usize) -> f64 {
    (k as f64 * 1.618).sin() + 0.5 * (k as f64 * 0.71).cos()
}

/// Rows (group, i) with a number, a text of three levels, a truth value and a count; some groups lack a level or have a
/// constant.
fn table(places: &[(usize, usize)]) -> Table {
    let number =
        |f: &dyn Fn(usize, usize) -> f64| Column::Number(places.iter().map(|&(g, i)| f(g, i)).collect());
    let level = |g: usize, i: usize| ["red", "green", "blue"][if g == 2 { i % 2 } else { i % 3 }].to_string();
    Table::new(vec![
        ("key".into(), Column::Text(places.iter().map(|(g, _)| Some(format!("g{g}"))).collect())),
        ("y".into(), number(&|g, i| ((g + i * 7) % 5) as f64)),
        ("x".into(), number(&|g, i| if g == 1 { 3.0 } else { wave(g * 31 + i) })),
        ("colour".into(), Column::Text(places.iter().map(|&(g, i)| Some(level(g, i))).collect())),
        ("wet".into(), Column::Boolean(places.iter().map(|&(g, i)| Some((g + i) % 4 == 0)).collect())),
    ])
    .unwrap()
}

fn request() -> Request {
    let mut spec = Spec::new("y", Response::Poisson);
    spec.features = Features::Terms(["x", "colour", "wet"].map(String::from).to_vec());
    Request::new(spec)
}

fn how(threads: usize, memory: Option<usize>) -> ManySettings {
    let choice = MethodChoice::new("auto", None, None, Numbers::default()).unwrap();
    ManySettings { goal: Goal::default(), choice, level: None, threads: Some(threads), memory }
}

#[derive(Default)]
struct Kept(Mutex<Vec<(usize, Vec<GroupFit>, u64)>>);

impl ManyObserver for Kept {
    fn stop(&self) -> bool {
        false
    }
    fn group(&self) {}
    fn chunk(&self, chunk: usize, fits: Vec<GroupFit>, data: u64) -> bool {
        self.0.lock().unwrap().push((chunk, fits, data));
        true
    }
}

fn all(table: &Table, size: usize, how: &ManySettings) -> Vec<(usize, Vec<GroupFit>, u64)> {
    let many = Many::new(table, &request(), "key").unwrap();
    let chunks = Chunks { groups: many.keys().len(), size };
    let kept = Kept::default();
    let todo: Vec<usize> = (0..chunks.count()).collect();
    assert_eq!(many.run(table, &chunks, &todo, &[], how, &kept).unwrap(), ManyStatus::Done);
    let mut found = kept.0.into_inner().unwrap();
    found.sort_by_key(|c| c.0);
    found
}

const GROUPS: usize = 5;

/// Rows dealt out in turn.
fn scattered() -> Vec<(usize, usize)> {
    (0..40).flat_map(|i| (0..GROUPS).filter(move |g| i < 40 - 3 * g).map(move |g| (g, i))).collect()
}

#[test]
fn a_group_is_a_table_of_its_own() {
    let found = all(&table(&scattered()), 2, &how(2, None));
    let fits: Vec<&GroupFit> = found.iter().flat_map(|c| &c.1).collect();
    assert_eq!(fits.len(), GROUPS);
    for (g, fit) in fits.iter().enumerate() {
        let alone: Vec<(usize, usize)> = scattered().into_iter().filter(|p| p.0 == g).collect();
        let mut own = request();
        own.spec.by = vec!["key".into()];
        let problem = Problem::new(&table(&alone), &own, &Storage::default()).unwrap();
        let goal = Goal { model_key: Key::Text(format!("g{g}")).model_key(), ..Goal::default() };
        let choice = MethodChoice::new("auto", None, None, Numbers::default()).unwrap();
        let ended = problem.run(&goal, &choice, None, None, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let outcome = ended.outcome;
        let named: Vec<(String, f64, f64)> = problem
            .quantities
            .iter()
            .zip(problem.on_user_scale(&outcome.gaussian))
            .map(|(q, n)| (q.name.clone(), n.mean, n.sd))
            .collect();
        assert_eq!(fit.parameters, named, "group {g}");
        assert_eq!((fit.neg_elbo, fit.rows), (Some(outcome.neg_elbo.value), alone.len()));
        assert_eq!((fit.bound, &fit.message), (outcome.certificate.gap.statement.bound(), &outcome.message));
    }
    // the constant of group 1 and the level that group 2 lacks are theirs alone
    let names = |g: usize| fits[g].parameters.iter().map(|p| p.0.as_str()).collect::<Vec<_>>();
    assert_eq!(names(0), ["(Intercept)", "x", "colour[green]", "colour[red]", "wet"]);
    assert_eq!(names(1), ["(Intercept)", "colour[green]", "colour[red]", "wet"]);
    assert_eq!(names(2), ["(Intercept)", "x", "colour[red]", "wet"]);
}

#[test]
fn order_threads_and_memory_change_nothing() {
    let first = all(&table(&scattered()), 2, &how(1, None));
    let mut turned = scattered();
    turned.sort_by_key(|(g, i)| (GROUPS - g, *i));
    // a byte of memory: a pass per chunk
    for found in [all(&table(&turned), 2, &how(3, None)), all(&table(&scattered()), 2, &how(2, Some(1)))] {
        assert_eq!(found, first);
    }
    // hashes of data differ between chunks, and with the order of rows within a group
    assert!(first[0].2 != first[1].2);
    let mut swapped = scattered();
    swapped.swap(0, GROUPS);
    assert!(all(&table(&swapped), 2, &how(1, None))[0].2 != first[0].2);
}

#[test]
fn keys_tell_streams_apart() {
    let key = |text: &str| Key::Text(text.into()).model_key();
    assert_ne!(key("a"), key("b"));
    assert_eq!(Key::Number(12.0).label(), "12");
    assert_eq!(Key::Number(12.0).model_key(), key("12"));
    assert_eq!(Key::Date(0.0).label(), "1970-01-01");
    let table = table(&scattered());
    let many = Many::new(&table, &request(), "key").unwrap();
    assert_eq!(
        (many.keys().len(), many.keys().rows(1), many.keys().key(4)),
        (5, 37, &Key::Text("g4".into()))
    );
    assert_eq!(many.parameters(), ["(Intercept)", "x", "wet"]);
}
