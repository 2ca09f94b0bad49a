//! Groups that are too many for a list: the table has what the list would have had.
#![allow(clippy::unwrap_used)]

use certus::{Family as Factors, Gaussian};
use certus_data::{Column, GroupSpec, Slopes, Spec, Storage, Table};
use certus_fit::{EffectSource, GroupTable, LISTED, Problem, Request};
use certus_likelihood::Response;

fn problem(groups: usize, standardise: bool) -> Problem {
    let n = 2 * groups;
    let wave =
        |k: usize, a: f64| Column::Number((0..n).map(|i| 2.0 + (i as f64 * a + k as f64).sin()).collect());
    let columns = vec![
        ("y".into(), Column::Number((0..n).map(|i| f64::from(u8::from(i % 3 == 0))).collect())),
        ("g".into(), Column::Number((0..n).map(|i| (i / 2) as f64).collect())),
        ("a".into(), wave(1, 0.7)),
        ("b".into(), wave(2, 1.3)),
    ];
    let mut spec = Spec::new("y", Response::Logistic);
    spec.groups =
        vec![GroupSpec { factor: vec!["g".into()], slopes: Slopes::All, sd: Some(1.0), correlated: false }];
    spec.standardise = standardise;
    Problem::new(&Table::new(columns).unwrap(), &Request::new(spec), &Storage::default()).unwrap()
}

/// A Gaussian on the model's pattern with a mean of its own in every coordinate and sds near 1.
fn gaussian(problem: &Problem) -> Gaussian {
    let family = problem.model().unwrap().family();
    let mean = (0..problem.meaning.dim()).map(|i| (0.3 + i as f64 * 0.7).sin()).collect();
    assert!(matches!(family, Factors::Pattern(_)));
    Gaussian::isotropic(mean, 0.8, &family).unwrap()
}

/// One group more than can be listed: rows of the table are the quantities by hand, at both ends and in the middle.
#[test]
fn the_table_has_every_group() {
    let groups = LISTED / 3;
    for standardise in [true, false] {
        let problem = problem(groups, standardise);
        assert_eq!(problem.meaning.dim(), 3 * (groups + 1));
        assert_eq!(
            problem.quantities.iter().map(|q| q.name.as_str()).collect::<Vec<_>>(),
            ["(Intercept)", "a", "b"]
        );
        assert!(
            problem.notes().iter().any(|n| n.contains(&format!("{} coefficients of groups", 3 * groups)))
        );
        let w = gaussian(&problem);
        let table =
            GroupTable::new(&problem.meaning, &problem.rows_by_level(), &EffectSource::Gaussian(&w)).unwrap();
        assert_eq!(table.deviation.each_ref().map(Vec::len), [3 * groups; 5]);
        assert_eq!(table.own.each_ref().map(Vec::len), [3 * groups; 2]);
        assert_eq!(table.rows.iter().sum::<i64>() as usize, 3 * problem.prepared.rows_used);
        // β_j = z_j/scale_j, and the intercept gives back Σ z_j center_j/scale_j
        let features = &problem.prepared.encoding.features;
        let (center, scale): (Vec<f64>, Vec<f64>) =
            features.iter().map(|f| if standardise { (f.mean, f.sd) } else { (0.0, 1.0) }).unzip();
        let on_scale = |z: &[f64]| -> [f64; 3] {
            let slopes = [z[1] / scale[0], z[2] / scale[1]];
            [z[0] - slopes[0] * center[0] - slopes[1] * center[1], slopes[0], slopes[1]]
        };
        let spread = 0.8 * (1.0 + (center[0] / scale[0]).powi(2) + (center[1] / scale[1]).powi(2)).sqrt();
        for g in [0, 1, groups / 2, groups - 1] {
            let own = on_scale(&w.mean()[3 * (g + 1)..][..3]);
            let all = on_scale(&w.mean()[..3]);
            for j in 0..3 {
                let row = 3 * g + j;
                assert_eq!(table.term.names[table.term.cells[row] as usize], "g");
                assert_eq!(table.group.names[table.group.cells[row] as usize], g.to_string());
                let name = ["(Intercept)", "a", "b"][j];
                assert_eq!(table.coefficient.names[table.coefficient.cells[row] as usize], name);
                let [mean, sd] = table.own.each_ref().map(|x| x[row]);
                let [deviation, deviation_sd, low, median, high] = table.deviation.each_ref().map(|x| x[row]);
                assert!(
                    (mean - own[j]).abs() < 1e-12 && (deviation - own[j] + all[j]).abs() < 1e-12,
                    "{g} {j}"
                );
                let expected = if j == 0 { spread } else { 0.8 / scale[j - 1] };
                assert!((sd / expected - 1.0).abs() < 1e-12, "{g} {j}: {sd} {expected}");
                let quantiles = [low - deviation, median - deviation, high - deviation];
                let normal = [-1.644853627, 0.0, 1.644853627].map(|z: f64| z * deviation_sd);
                quantiles.iter().zip(normal).for_each(|(a, b)| assert!((a - b).abs() < 1e-8 * deviation_sd));
                // both are independent with the same spread here
                assert!((deviation_sd / (sd * 2f64.sqrt()) - 1.0).abs() < 1e-12, "{g} {j}");
            }
        }
    }
}

/// Up to the limit everything is listed and there is no table.
#[test]
fn few_groups_are_listed() {
    let problem = problem(LISTED / 3 - 1, true);
    assert_eq!(problem.meaning.dim(), 3 * (LISTED / 3));
    assert_eq!(problem.quantities.len(), 3 + 6 * (LISTED / 3 - 1));
    let w = gaussian(&problem);
    assert!(
        GroupTable::new(&problem.meaning, &problem.rows_by_level(), &EffectSource::Gaussian(&w)).is_none()
    );
    assert!(problem.notes().iter().any(|n| n.starts_with("factor:") && n.contains("nothing is lost")));
}
