//! An HTTP service that embeds certus: POST /fit takes settings and columns as JSON and answers with the JSON of
//! docs/fit-json.md.
//!
//! `service 127.0.0.1:8080` serves until it is stopped. Without an address it tries itself: it listens on a free port
//! of this machine, sends requests, checks the answers, and ends.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use certus_data::{Column, Table};
use certus_fit::{ErrorKind, Fit, Settings};
use serde_json::{Value, json};

/// A longer request is refused.
const LONGEST: u64 = 1 << 24;
/// A client that says nothing for so long is left alone.
const PATIENCE: Duration = Duration::from_secs(10);
/// A fit ends then with what it has, unless the settings say otherwise.
const MAX_TIME: &str = "30s";

/// Why there is no fit: a status of HTTP, and a sentence.
type Refusal = (u16, String);

/// The column of an array: text, or numbers; null is missing.
fn column(name: &str, cells: &Value) -> Result<Column, Refusal> {
    let wrong =
        || (422, format!("column {name}: an array of numbers or of texts is required; null is missing"));
    let cells = cells.as_array().ok_or_else(wrong)?;
    if cells.iter().any(Value::is_string) {
        let legal = cells.iter().all(|cell| cell.is_string() || cell.is_null());
        let text = || cells.iter().map(|cell| cell.as_str().map(String::from)).collect();
        return legal.then(|| Column::Text(text())).ok_or_else(wrong);
    }
    let number = |cell: &Value| if cell.is_null() { Some(f64::NAN) } else { cell.as_f64() };
    cells.iter().map(number).collect::<Option<_>>().map(Column::Number).ok_or_else(wrong)
}

/// The fit of a request, as fit.json.
fn fit(body: &[u8]) -> Result<String, Refusal> {
    let request: Value = serde_json::from_slice(body).map_err(|e| (400, format!("not JSON: {e}")))?;
    let mut settings: Settings =
        serde_json::from_value(request["settings"].clone()).map_err(|e| (400, format!("settings: {e}")))?;
    settings.max_time.get_or_insert_with(|| MAX_TIME.into());
    let columns =
        request["columns"].as_object().ok_or((400, "columns: an object is required".to_string()))?;
    let columns = columns.iter().map(|(name, cells)| Ok((name.clone(), column(name, cells)?)));
    let table = Table::new(columns.collect::<Result<_, Refusal>>()?).map_err(|e| (422, e.to_string()))?;
    let made = Fit::new(&table, &settings).map_err(|error| match error.kind() {
        ErrorKind::Request => (400, error.to_string()),
        ErrorKind::Data | ErrorKind::NotIdentified | ErrorKind::NotFinite => (422, error.to_string()),
        _ => (500, error.to_string()),
    })?;
    Ok(made.record.to_json())
}

/// Reads one request and writes the answer.
fn answer(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?.take(LONGEST));
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        match header.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let answered = match (line.split(' ').take(2).collect::<Vec<_>>().as_slice(), length) {
        (_, LONGEST..) => Err((413, format!("a request may have {LONGEST} bytes"))),
        (["POST", "/fit"], _) => {
            let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            reader.read_exact(&mut body)?;
            fit(&body)
        }
        _ => Err((404, "there is POST /fit and nothing else".into())),
    };
    let (status, body) = match answered {
        Ok(body) => (200, body),
        Err((status, error)) => (status, json!({ "error": error }).to_string()),
    };
    write!(
        stream,
        "HTTP/1.1 {status} \r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Answers every request on a thread of its own.
fn serve(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        // a client that went away, or said something that is not HTTP, gets no answer
        thread::spawn(move || answer(&mut stream).unwrap_or_default());
    }
}

/// What a client does.
fn post(address: SocketAddr, request: &Value) -> io::Result<(u16, Value)> {
    let (mut stream, body) = (TcpStream::connect(address)?, request.to_string());
    write!(stream, "POST /fit HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let status =
        head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, serde_json::from_str(body)?))
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(address) = std::env::args().nth(1) {
        serve(&TcpListener::bind(address)?);
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || serve(&listener));

    // Bliss (1935): beetles killed by doses of carbon disulphide
    let beetles = json!({
        "dose": [1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839],
        "killed": [6, 13, 18, 28, 52, 53, 61, 60],
        "beetles": [59, 60, 62, 56, 63, 59, 62, 60],
    });
    let settings = json!({ "model": "binomial", "formula": "killed ~ dose", "trials": "beetles" });
    let (status, fit) = post(address, &json!({ "settings": settings, "columns": beetles }))?;
    println!("{status}: {}", fit["message"]);
    assert_eq!((status, fit["status"].as_str()), (200, Some("reached")), "{fit}");
    assert_eq!(fit["certificate"]["gap"]["level"], "proved");
    let slope = &fit["parameters"][1];
    println!("{} {} ± {}", slope["name"], slope["mean"], slope["sd"]);
    // what docs/quick-start.md shows of the same data
    assert!((slope["mean"].as_f64().unwrap_or(f64::NAN) - 34.42).abs() < 0.01, "{slope}");

    // what is wrong is said with the column or the setting
    let settings = json!({ "model": "binomial", "formula": "killed ~ doze", "trials": "beetles" });
    let (status, error) = post(address, &json!({ "settings": settings, "columns": beetles }))?;
    println!("{status}: {}", error["error"]);
    assert!(status == 422 && error["error"].as_str().is_some_and(|e| e.contains("doze")), "{status} {error}");
    let (status, error) = post(address, &json!({ "settings": { "modle": "binomial" }, "columns": beetles }))?;
    println!("{status}: {}", error["error"]);
    assert!(
        status == 400 && error["error"].as_str().is_some_and(|e| e.contains("modle")),
        "{status} {error}"
    );
    Ok(())
}
