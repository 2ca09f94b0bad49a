//! Outputs that cannot be written: full disks, limits, places that are taken or must not be written, streams that are
//! closed (findings F2, F5, F6).

use super::table::{Left, Row};

const FIT: &str = "fit logistic d.csv --response y --features x,z --out out";

/// With a file system of `size` KiB at `small`; where nobody may mount one, a limit on the size of files.
fn small(size: usize, script: &str) -> String {
    format!(
        "mkdir -p small; if unshare -rm true 2>/dev/null; then
           export SCRIPT='{script}'; unshare -rm bash -c 'certus() {{ \"$CERTUS\" \"$@\"; }}; \
             mount -t tmpfs -o size={size}k tmpfs small && eval \"$SCRIPT\"'
         else ulimit -f {size}; {script}; fi"
    )
}

#[allow(clippy::too_many_lines)]
pub fn rows() -> Vec<Row> {
    let run = |what: &str, script: &str, code: i32, words: &str| Row::shell(what, script, code, words);
    let mut rows = vec![
        // finding F2
        run("stderr is full (F2)", &format!("certus {FIT} 2>/dev/full"), 0, "reached").leaves(Left::Result("reached")),
        run("stderr is full and the data are bad (F2)", "certus fit logistic d.csv --response nothing \
            2>/dev/full", 65, ""),
        run("stderr is full and the arguments are bad (F2)", "certus fit --nothing 2>/dev/full", 64, ""),
        run("the reader of stderr is gone (F2)", &format!("mkfifo p; (exec <p; sleep 0.01) & certus {FIT} \
            2>p"), 0, "reached").leaves(Left::Result("reached")),
        run("stderr is closed (F2)", &format!("certus {FIT} 2>&-"), 0, "reached").leaves(Left::Result("reached")),
        run("stdin, stdout and stderr are closed", &format!("certus {FIT} <&- >&- 2>&-; code=$?; cat out/fit.json; \
            exit $code"), 0, "\"reached\"").leaves(Left::Result("reached")),
        run("stdout is full", &format!("certus {FIT} >/dev/full"), 74, "stdout").leaves(Left::Result("reached")),
        run("stdout is full, with JSON", &format!("certus {FIT} --json \
            >/dev/full"), 74, "stdout").leaves(Left::Result("reached")),
        run("the reader of stdout is gone", &format!("set -o pipefail; certus {FIT} | \
            true"), 74, "stdout").leaves(Left::Result("reached")),
        run("stdout is full, for predictions", "certus predict out d.csv \
            >/dev/full", 74, "stdout").fitted().leaves(Left::Same),
        run("stdout is full, for a plan", "certus plan logistic d.csv --response y >/dev/full", 74, "stdout"),
        run("stdout is full, for the manual", "certus man >/dev/full", 74, "stdout"),
        run("stdout is full, for help", "certus --help >/dev/full; code=$?; [[ $code == 0 || $code == 74 ]]", 0, ""),
        run("stdout is full, for what is supported", "certus doctor >/dev/full", 74, "stdout"),
        run("stdout is full, for a failed fit with JSON", "certus fit logistic f.csv --response y --prior-sd inf \
            --json >/dev/full", 74, "stdout").file("f.csv", "y,x\n0,1\n0,2\n0,3\n1,4\n1,5\n1,6\n"),
        // places that are taken
        run("the output exists", &format!("certus {FIT}"), 73, "--overwrite").fitted().leaves(Left::Same),
        run("the output is a file", &format!("echo mine > out; certus {FIT}"), 73, "out"),
        run("the output is a file, and may be replaced", &format!("echo mine > out; certus {FIT} --overwrite; \
            code=$?; cat out; exit $code"), 73, "mine"),
        run("the output has other files", &format!("mkdir out; echo mine > out/a; certus {FIT} --overwrite; \
            code=$?; cat out/a; exit $code"), 73, "mine|contains other files"),
        run("a file stands above the output", "echo mine > p; certus fit logistic d.csv --response y --features x \
            --out p/out", 73, "p/out"),
        run("a link to nowhere stands at the output", &format!("ln -s nowhere out; certus {FIT}"), 73, "out"),
        run("the output is the directory of the data", "mkdir p; mv d.csv p; certus fit logistic p --response y \
            --features x --out p --overwrite; code=$?; ls p; exit $code", 73, "d.csv"),
        run("a name that is too long", "certus fit logistic d.csv --response y --features x --out $(printf \
            'a%.0s' {1..300})", 73, "cannot be created"),
        run("an output without a name", "certus fit logistic d.csv --response y --features x --out ''", 64, "--out"),
        run("directories above the output are made", "certus fit logistic d.csv --response y --features x --out \
            a/b/c && certus verify a/b/c", 0, "confirmed"),
        run("a link in the place of the run", &format!("mkdir elsewhere; echo mine > elsewhere/a; ln -s \
            ../elsewhere out/.run; certus {FIT} --overwrite; code=$?; cat elsewhere/a; exit $code"), 65, "mine|a \
            link").fitted(),
        run("a file in the place of the run", &format!("echo mine > out/.run; certus {FIT} \
            --overwrite"), 65, ".run").fitted(),
        // two runs on one output
        run("two runs on one output", "certus fit logistic d.csv --response y --features x,z --method prox-energy \
            --iterations 100000000 --gap 1e-7 --max-time 3s --out out --quiet & \
            sleep 1.2; certus resume out; code=$?; wait; exit $code", 73, "in use").leaves(Left::Result("limit")),
        run("a run that would replace a run", "certus fit logistic d.csv --response y --features x,z --method \
            prox-energy --iterations 100000000 --gap 1e-7 --max-time 3s --out out --quiet & sleep 1.2; \
            certus fit logistic d.csv --response y --features x --out out --overwrite; code=$?; wait; \
            exit $code", 73, "in use").leaves(Left::Result("limit")),
        // finding F5
        run("predictions over their input (F5)", "certus predict out d.csv --to d.csv --overwrite; code=$?; head -1 \
            d.csv; exit $code", 73, "y,x,z|contains data").fitted().leaves(Left::Same),
        run("draws over a file of the fit (F5)", "certus sample out --draws 5 --to out/groups.parquet \
            --overwrite", 73, "a file of a fit").fitted().leaves(Left::Same),
        run("draws into a directory", "mkdir p.csv; certus sample out --draws 5 --to p.csv \
            --overwrite", 74, "p.csv").fitted().leaves(Left::Same),
        run("draws into a directory that is not there", "certus sample out --draws 5 --to \
            p/s.csv", 74, "p/s.csv").fitted().leaves(Left::Same),
        run("draws into a file of no format", "certus sample out --draws 5 --to s.xlsx", 64, ".csv or \
            .parquet").fitted().leaves(Left::Same),
        run("draws over a file", "echo mine > s.csv; certus sample out --draws 5 --to s.csv; code=$?; cat s.csv; \
            exit $code", 73, "mine|already exists").fitted().leaves(Left::Same),
        run("draws through a link that leads elsewhere", "echo mine > a; ln -s a s.csv; certus sample out --draws 5 \
            --to s.csv --overwrite && cat a", 0, "mine").fitted().leaves(Left::Same),
        // limits on files: SIGXFSZ (finding F6)
        run("no file may grow (F6)", &format!("ulimit -f 0; certus {FIT}"), 74, "could not be written"),
        run("no file may grow, and a fit is there (F6)", &format!("ulimit -f 0; certus {FIT} \
            --overwrite"), 74, "could not be written").fitted().leaves(Left::Result("reached")),
        run("files of 1 KiB (F6)", &format!("ulimit -f 1; certus {FIT}"), 74, "could not be written"),
        run("draws beyond the limit of a file (F6)", "ulimit -f 8; certus sample out --draws 10000 --to s.csv; \
            code=$?; [[ ! -e s.csv ]] || exit 1; exit $code", 74, "s.csv could not be \
            written").fitted().leaves(Left::Same),
        run("a report beyond the limit of a file (F6)", "ulimit -f 4; certus report out; code=$?; [[ ! -e \
            out/report.html ]] || exit 1; exit $code", 74, "report.html could not be \
            written").fitted().leaves(Left::Same),
        run("checkpoints beyond the limit of a file warn, and the run goes on (F6)", "ulimit -f 5; certus fit \
            linear f.csv --response y --sigma 1 --method prox-energy --iterations 200 --checkpoint-every 0s --quiet \
            --out out; code=$?; ls -a out out/.run; exit $code", 74, "the run continues|could not be \
            written").file("f.csv", wide()),
        run("a scratch directory that is not there", "gzip -k d.csv; TMPDIR=/no/such/place certus fit logistic \
            d.csv.gz --response y --features x", 74, "/no/such/place"),
        run("unpacked data beyond the limit of a file", "gzip -k d.csv; ulimit -f 1; certus fit logistic d.csv.gz \
            --response y --features x", 74, "d.csv"),
    ];
    for size in [4, 8, 16, 24, 32] {
        rows.push(
            run(
                &format!("a disk of {size} KiB for a fit"),
                &small(size, "certus fit logistic d.csv --response y --features x,z --out small/out; code=$?; if [[ \
                    $code == 0 ]]; then certus verify small/out; fi; [[ $code == 74 || $code == 73 || $code == 0 ]]"),
                0,
                "",
            ),
        );
        rows.push(run(
            &format!("a disk of {} KiB on which a fit is replaced", 2 * size + 40),
            &small(2 * size + 40, "certus fit logistic d.csv --response y --features x --posterior gaussian --out \
                small/out --quiet || exit 1; for seed in 1 2 3 4; do head -c 3000 /dev/zero > small/fill$seed \
                2>/dev/null; certus fit logistic d.csv --response y --features x,z,n,k --posterior gaussian \
                --seed $seed --out small/out --overwrite --quiet; code=$?; [[ $code == 74 || $code == 73 || $code == \
                0 ]] || exit $code; certus verify small/out || exit 1; done"),
            0,
            "confirmed",
        ));
    }
    let read_only = "mkdir -p ro; cp -r out ro/ 2>/dev/null; if unshare -rm true 2>/dev/null; then unshare -rm bash \
        -c 'mount --bind ro ro && mount -o remount,bind,ro ro && ";
    let otherwise = "'; else echo skipped: nobody may mount here; exit ";
    for (what, command, code, words) in [
        (
            "a read-only directory for a fit",
            "$CERTUS fit logistic d.csv --response y --features x --out ro/new",
            73,
            "cannot be created",
        ),
        ("a fit in a read-only directory is verified", "$CERTUS verify ro/out", 0, "confirmed"),
        (
            "a fit in a read-only directory is not replaced",
            "$CERTUS fit logistic d.csv --response y --features x --out ro/out --overwrite",
            74,
            "ro/out",
        ),
        ("a report in a read-only directory", "$CERTUS report ro/out", 74, "report.html"),
    ] {
        rows.push(
            run(what, &format!("{read_only}{command}{otherwise}{code}; fi"), code, "")
                .fitted()
                .leaves(Left::Same)
                .or_skipped(words),
        );
    }
    rows
}

/// Rows for a model of 20 coefficients, so that its states have more than 5 KiB.
fn wide() -> String {
    let header: String = (0..40).map(|k| format!(",c{k}")).collect();
    let mut text = format!("y{header}\n");
    for i in 0..120_usize {
        let cells: String = (0..40).map(|k| format!(",{}", (i * (k + 3) % 17) as f64 / 7.0)).collect();
        text.push_str(&format!("{}{cells}\n", i % 7));
    }
    text
}
