//! Files of draws hold the bits they were given, under their names.
#![allow(clippy::unwrap_used)]

use crate::common::fresh;
use certus::factor::Lower;
use certus::{Factor, Gaussian};
use certus_fit::{ColumnFile, ErrorKind};

fn gaussian() -> Gaussian {
    let factor = Lower::new(3, vec![1.0, 0.5, -3e-9, 0.0, 2.0 / 3.0, 1e5, 0.0, 0.0, 0.1]).unwrap();
    Gaussian::new(vec![1.0, -2.0, 1e-3], Factor::Lower(factor)).unwrap()
}

fn names() -> Vec<String> {
    ["#theta.1", "theta.2", "a \"name\", quoted"].map(String::from).to_vec()
}

#[test]
fn csv_reads_like_cmdstan_and_back_to_the_bit() {
    let (gaussian, names) = (gaussian(), names());
    let (sample, comments) = (gaussian.sample(50, 7), ["model = logistic".into(), "two\nlines".into()]);
    let column_file = ColumnFile { names: &names, values: &sample, labels: &[], comments: &comments };
    let path = fresh("draws").with_extension("csv");
    column_file.write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let comments: Vec<&str> = text.lines().filter(|l| l.starts_with('#')).collect();
    assert_eq!(comments, ["# model = logistic", "# two", "# lines"]);
    let mut lines = text.lines().filter(|l| !l.starts_with('#'));
    assert_eq!(lines.next(), Some("\"#theta.1\",theta.2,\"a \"\"name\"\", quoted\""));
    let numbers: Vec<u64> = lines
        .flat_map(|l| l.split(',').map(|x| x.parse::<f64>().unwrap().to_bits()).collect::<Vec<_>>())
        .collect();
    let sample: Vec<u64> = sample.iter().map(|x| x.to_bits()).collect();
    assert_eq!(numbers, sample);
    let none = ColumnFile { values: &[], comments: &[], ..column_file }.to_csv().unwrap();
    assert_eq!(none.lines().count(), 1);
    let error = column_file.write(&fresh("draws").with_extension("xlsx")).unwrap_err();
    assert!(error.kind() == ErrorKind::Request && error.to_string().contains(".parquet"), "{error}");
}

#[test]
fn names_must_fit_and_differ() {
    let values = [0.0; 9];
    for names in [vec!["a".to_string(); 3], vec!["a".to_string(), "b".to_string()]] {
        let error =
            ColumnFile { names: &names, values: &values, labels: &[], comments: &[] }.to_csv().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Defect, "{error}");
    }
}

#[test]
fn parquet_comes_back_to_the_bit() {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let (gaussian, names) = (gaussian(), names());
    // more than one row group
    let n = (1 << 16) + 5;
    let (sample, comments) = (gaussian.sample(n, 3), ["seed = 3".to_string()]);
    let column_file = ColumnFile { names: &names, values: &sample, labels: &[], comments: &comments };
    let path = fresh("draws").with_extension("parquet");
    column_file.write(&path).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    assert_eq!((metadata.num_rows(), reader.num_row_groups()), (n as i64, 2));
    let seed = &metadata.key_value_metadata().unwrap()[0];
    assert_eq!((seed.key.as_str(), seed.value.as_deref()), ("certus", Some("seed = 3")));
    let found: Vec<&str> = metadata.schema_descr().columns().iter().map(|c| c.name()).collect();
    assert_eq!(found, names);
    for i in 0..3 {
        let mut column = Vec::new();
        for group in 0..2 {
            let group = reader.get_row_group(group).unwrap();
            let parquet::column::reader::ColumnReader::DoubleColumnReader(mut values) =
                group.get_column_reader(i).unwrap()
            else {
                panic!("not doubles")
            };
            let rows = group.metadata().num_rows() as usize;
            assert_eq!(values.read_records(rows, None, None, &mut column).unwrap().0, rows);
        }
        assert!(column.iter().zip(sample.iter().skip(i).step_by(3)).all(|(a, b)| a.to_bits() == b.to_bits()));
        assert_eq!(column.len(), n);
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        column_file.to_parquet().unwrap(),
        column_file.to_parquet().unwrap(),
        "the same bytes every time"
    );
    let none = ColumnFile { values: &[], ..column_file }.to_parquet().unwrap();
    assert!(none.starts_with(b"PAR1"));
}
