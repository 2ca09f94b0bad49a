//! Signals at moments of a run that nobody chose; the promise of two seconds is tested in `ends.rs`.

use super::table::{Left, Row};

/// A run of a million iterations, or what is left of ten seconds.
const LONG: &str = "fit logistic d.csv --response y --features x,z --method prox-energy --iterations 100000000 \
                    --gap 1e-7 --checkpoint-every 10ms --max-time 10s --out out --quiet";

/// A signal after so many milliseconds of the run; the exit code is that of the run.
fn after(milliseconds: u32, signal: &str) -> String {
    let wait = f64::from(milliseconds) / 1000.0;
    format!("env --default-signal \"$CERTUS\" {LONG} & pid=$!; sleep {wait}; kill -{signal} $pid; wait $pid")
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let moments = [
        (650, "INT", 130),
        (900, "INT", 130),
        (750, "TERM", 143),
        (1100, "TERM", 143),
        (800, "HUP", 129),
        (1300, "HUP", 129),
    ];
    for (milliseconds, signal, code) in moments {
        rows.push(
            Row::shell(
                &format!("SIG{signal} after {milliseconds} ms"),
                &after(milliseconds, signal),
                code,
                "",
            )
            .leaves(Left::Result("interrupted")),
        );
    }
    rows.extend([
        Row::shell("a signal that was ignored from the start", &format!("nohup \"$CERTUS\" {} & pid=$!; sleep 0.5; \
            kill -HUP $pid; wait $pid", LONG.replace("10s", "1500ms")), 10, "").leaves(Left::Result("limit")),
        Row::shell("two signals, one after the other", &after(800, "INT").replace("; wait", "; kill -INT $pid \
            2>/dev/null; wait"), 130, ""),
        Row::shell("a stop and its end, again and again", &format!("\"$CERTUS\" {} & pid=$!; for t in 0.2 0.13 0.31 \
            0.07; do sleep $t; kill -STOP $pid; sleep $t; kill -CONT $pid; done; wait \
            $pid", LONG.replace("10s", "2500ms")), 10, "").leaves(Left::Result("limit")),
        Row::shell("a kill, after which the run is resumed", &format!("{}; certus resume out \
            --quiet", after(900, "KILL").replace("10s", "2s")), 10, "").leaves(Left::Result("limit")),
        Row::shell("a kill of the process that reads", "env --default-signal \"$CERTUS\" fit logistic d.csv \
            --response y --sql 'select a.y, count(*) as k, avg(b.x) as v from data a cross join data b cross join \
            data c cross join data d cross join data e group by a.y' --out out 2> said & pid=$!; for t in {1..100}; \
            do child=$(pgrep -P $pid -f __read | head -1); [[ -n $child ]] && break; sleep 0.02; done; sleep 0.3; \
            kill -KILL $child; wait $pid; code=$?; cat said; exit $code", 65, "d.csv can't be read|signal: \
            9").leaves(Left::Nothing),
        Row::shell("no process that reads is left behind", "env --default-signal \"$CERTUS\" fit logistic d.csv \
            --response y --sql 'select a.y, count(*) as k, avg(b.x) as v from data a cross join data b cross join \
            data c cross join data d cross join data e group by a.y' --out out 2> said & pid=$!; for t in {1..100}; \
            do child=$(pgrep -P $pid -f __read | head -1); [[ -n $child ]] && break; sleep 0.02; done; kill -KILL \
            $pid; wait $pid 2>/dev/null; for t in {1..100}; do kill -0 $child 2>/dev/null || exit 0; sleep 0.05; \
            done; exit 1", 0, "").leaves(Left::Nothing),
        Row::shell("a query that gives no rows for a long time", "certus fit logistic d.csv --response y --max-time \
            1s --sql 'select a.y, count(*) as k, avg(b.x) as v from data a cross join data b cross join data c \
            cross join data d cross join data e group by a.y' --out out", 10, "nothing was \
            fitted").leaves(Left::Nothing),
        Row::shell("no time at all", "certus fit logistic d.csv --response y --max-time 0s --out \
            out", 10, "time limit"),
        Row::shell("a pipe that nobody writes to", "mkfifo p.csv; certus fit logistic p.csv --response y --max-time \
            1s --out out", 10, "stopped by --max-time 1s|nothing was").leaves(Left::Nothing),
        // clocks
        Row::shell("a stop that is longer than --max-time", &format!("env --default-signal \"$CERTUS\" {} & pid=$!; \
            sleep 0.6; kill -STOP $pid; sleep 2; kill -CONT $pid; wait \
            $pid", LONG.replace("10s", "1500ms")), 10, "").leaves(Left::Result("limit")),
        Row::shell("checkpoints from the future", &format!("{}; touch -d 2099-01-01 d.csv out/.run/*; certus resume \
            out --quiet", after(900, "KILL").replace("10s", "2s")), 10, "").leaves(Left::Result("limit")),
        Row::shell("files of a fit from 2099 and from 1970", "touch -d 2099-01-01 d.csv out/*; certus verify out \
            >/dev/null || exit 1; touch -d @0 d.csv out/*; certus verify out", 0, "confirmed").fitted(),
        Row::shell("a machine that has run for 31 years", "if unshare -rTf --monotonic 1000000000 true 2>/dev/null; \
            then unshare -rTf --monotonic 1000000000 $CERTUS fit logistic d.csv --response y --features x --max-time \
            60s --out out; else certus fit logistic d.csv --response y --features x --out out; \
            fi", 0, "reached").leaves(Left::Result("reached")),
    ]);
    rows
}
