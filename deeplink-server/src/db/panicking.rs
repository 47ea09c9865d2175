//! A job that panics fails alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::tests::Scratch;
use super::*;

/// How a job panics.
#[derive(Debug, Clone, Copy)]
enum Panics {
    InItsStatement,
    InItsTransaction,
}

struct Job(Panics, mpsc::UnboundedSender<Result<(), DbError>>);

impl super::Job for Job {
    fn run_by_statement<'a>(&'a mut self, _: &'a mut SqliteConn) -> Option<Statement<'a>> {
        matches!(self.0, Panics::InItsStatement).then(|| async { panic!("deliberate panic") }.boxed())
    }

    fn run<'a>(&'a mut self, _: Conn<'a>) -> BoxFuture<'a, Ran> {
        async { panic!("deliberate panic") }.boxed()
    }

    fn answer(self: Box<Self>, outcome: Result<(), DbError>) {
        self.1.send(outcome).expect("the test receives");
    }
}

/// A queue of this many jobs.
struct Jobs(AtomicUsize, Panics, mpsc::UnboundedSender<Result<(), DbError>>);

impl ClickSource for Jobs {
    fn ready(&self) -> BoxFuture<'_, ()> {
        let is_ready = self.0.load(Ordering::SeqCst) > 0;
        async move {
            if !is_ready {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    fn take(&self) -> Option<Box<dyn super::Job>> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.is_ok().then(|| Box::new(Job(self.1, self.2.clone())) as Box<dyn super::Job>)
    }

    fn may_grow(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_continue_after_clicks_that_panic() {
    for panics in [Panics::InItsStatement, Panics::InItsTransaction] {
        let scratch = Scratch::new().await;
        let (answers, mut answered) = mpsc::unbounded_channel();
        if !scratch.db.attach_click_source(Arc::new(Jobs(AtomicUsize::new(3), panics, answers))) {
            // On PostgreSQL a separate task stores clicks.
            return;
        }
        for _ in 0..3 {
            let outcome = answered.recv().await.expect("an answer");
            assert!(outcome.is_err(), "{panics:?}");
        }
        scratch.execute("CREATE TABLE afterwards (id BIGINT)".into()).await;
    }
}
