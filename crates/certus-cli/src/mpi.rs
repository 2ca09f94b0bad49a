//! The way to other processes: MPI, if this build has it.

#[cfg(feature = "mpi")]
pub use with_mpi::MpiRank;
#[cfg(not(feature = "mpi"))]
pub use without::MpiRank;

/// Told whom a wait was for (`None` for a message to all) and how long it lasted.
pub type Silence = Box<dyn Fn(Option<usize>, std::time::Duration) + Send + Sync>;

#[cfg(feature = "mpi")]
mod with_mpi {
    use std::sync::Arc;
    use std::time::Duration;

    use certus_cluster::mpi::{Mpi, local_count};
    use certus_cluster::{Spread, Transport};
    use certus_models::Ranks;

    use crate::exit::{Code, Failure};

    /// One rank of a run over MPI.
    pub struct MpiRank(Arc<Spread<Mpi>>);

    impl MpiRank {
        /// True if this build can join others.
        pub const BUILT: bool = true;

        /// Joins the others, `count` as the variable `variable` says; waits longer than `limit` end the run.
        pub fn open(
            count: usize,
            variable: &str,
            limit: Duration,
            silence: super::Silence,
        ) -> Result<Option<Self>, Failure> {
            let mpi = Mpi::start(limit, Code::Lost as u8, silence).ok_or_else(|| {
                Failure::new(
                    Code::Lost,
                    "MPI was started without support for calls from several threads in turn",
                )
            })?;
            if mpi.count() != count {
                let found = mpi.count();
                let words = format!(
                    "{variable} is {count}, but MPI finds {found} processes: the launcher belongs to another MPI than \
                        the one certus was built with"
                );
                return Err(Failure::new(Code::Lost, words));
            }
            Ok(Some(Self(Arc::new(Spread::new(mpi)))))
        }

        /// As sums see it.
        pub fn ranks(&self) -> Arc<dyn Ranks> {
            self.0.clone()
        }

        /// The processes of this host.
        pub fn neighbours(&self) -> usize {
            local_count()
        }

        /// Numbers that travelled to or from this rank.
        pub fn numbers_sent(&self) -> u64 {
            self.0.numbers_sent()
        }

        /// Ends all ranks on the spot.
        pub fn abort(&self, code: Code) {
            self.0.transport().abort(code as u8)
        }

        /// Waits until all ranks are here; if one is not within `limit`, calls `late` and ends all with `code`.
        pub fn farewell(&self, limit: Duration, code: Code, late: &dyn Fn()) {
            self.0.transport().farewell(limit, code as u8, late);
        }
    }
}

#[cfg(not(feature = "mpi"))]
mod without {
    use std::sync::Arc;
    use std::time::Duration;

    use certus_models::Ranks;

    use crate::exit::{Code, Failure};

    /// There is none.
    pub enum MpiRank {}

    impl MpiRank {
        /// True if this build can join others.
        pub const BUILT: bool = false;

        /// One process is alone whatever started it; several would run the same fit several times.
        pub fn open(
            count: usize,
            variable: &str,
            _: Duration,
            _: super::Silence,
        ) -> Result<Option<Self>, Failure> {
            if count == 1 {
                return Ok(None);
            }
            Err(Failure::new(
                Code::Usage,
                format!(
                    "{count} processes were started together ({variable}), but this certus was built without MPI and \
                        would run the same \
                     fit {count} times: build it with the feature `mpi` (docs/scaling.md), or start one process"
                ),
            ))
        }

        /// As sums see it.
        pub fn ranks(&self) -> Arc<dyn Ranks> {
            match *self {}
        }

        /// The processes of this host.
        pub fn neighbours(&self) -> usize {
            match *self {}
        }

        /// Numbers that travelled to or from this rank.
        pub fn numbers_sent(&self) -> u64 {
            match *self {}
        }

        /// Ends all ranks on the spot.
        pub fn abort(&self, _: Code) {
            match *self {}
        }

        /// Waits until all ranks are here.
        pub fn farewell(&self, _: Duration, _: Code, _: &dyn Fn()) {
            match *self {}
        }
    }
}
