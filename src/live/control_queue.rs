//! What the API asks the control thread to do, because that thread alone has the rights for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Tasks that wait for the control thread.
const WAITING: usize = 16;
/// Longest wait for one to be done.
const TIMEOUT: Duration = Duration::from_secs(10);

type Task<S> = Box<dyn FnOnce(&S) + Send>;

/// The end of those who ask. `S` is what both share.
pub struct ControlHandle<S>(SyncSender<Task<S>>);

/// The control thread's end. Tasks that still wait when it is dropped are refused.
pub struct ControlQueue<S>(Receiver<Task<S>>);

pub fn control_queue<S>() -> (ControlHandle<S>, ControlQueue<S>) {
    let (sender, receiver) = sync_channel(WAITING);
    (ControlHandle(sender), ControlQueue(receiver))
}

impl<S> ControlHandle<S> {
    /// Has it done and waits for the answer. Not to be called by the control thread.
    pub fn ask<T: Send + 'static>(
        &self,
        task: impl FnOnce(&S) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (answer, answered) = sync_channel(1);
        let busy = "the switch is busy, or stopping";
        self.0.try_send(Box::new(move |shared| drop(answer.send(task(shared))))).map_err(|_| busy)?;
        answered.recv_timeout(TIMEOUT).map_err(|_| busy)?
    }
}

impl<S> ControlQueue<S> {
    /// Does what is asked for, until `end`. Calls `done` after each.
    pub fn serve(&self, shared: &S, end: Instant, mut done: impl FnMut()) {
        // Nobody is left to ask: what remains is the wait.
        let wait = || std::thread::sleep(end.saturating_duration_since(Instant::now()));
        loop {
            match self.0.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(task) => task(shared),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => return wait(),
            }
            done();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_done_by_the_thread_that_serves() {
        let (asking, control_queue) = control_queue::<std::thread::ThreadId>();
        let asked = std::thread::spawn(move || {
            let where_done = asking.ask(|by| Ok((*by, std::thread::current().id()))).unwrap();
            let refused = asking.ask(|_| Err::<(), _>("no".into())).unwrap_err();
            (where_done, refused)
        });
        let me = std::thread::current().id();
        let (mut done, until) = (0, Instant::now() + Duration::from_secs(10));
        while done < 2 && Instant::now() < until {
            control_queue.serve(&me, Instant::now() + Duration::from_millis(20), || done += 1);
        }
        assert_eq!(asked.join().unwrap(), ((me, me), "no".to_string()));
    }

    /// Neither by those who ask afterwards nor by those who wait already, and no queue grows.
    #[test]
    fn a_control_thread_that_is_gone_is_not_waited_for() {
        let (asking, control_queue) = control_queue::<()>();
        let refused = || asking.ask(|()| Ok(())).unwrap_err() == "the switch is busy, or stopping";
        let started = Instant::now();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..16).map(|_| scope.spawn(refused)).collect();
            std::thread::sleep(Duration::from_millis(300));
            assert!(waiting.iter().any(|asked| !asked.is_finished()), "they wait");
            // In case one of them is late.
            while asking.0.try_send(Box::new(|()| ())).is_ok() {}
            assert!(refused(), "there is no room for a 17th");
            drop(control_queue);
            assert!(waiting.into_iter().all(|asked| asked.join().unwrap()) && refused());
        });
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }

    #[test]
    fn what_is_not_done_in_ten_seconds_is_refused() {
        let (asking, _duties) = control_queue::<()>();
        assert!((0..15).all(|_| asking.0.try_send(Box::new(|()| ())).is_ok()));
        let refused = || {
            let started = Instant::now();
            assert_eq!(asking.ask(|()| Ok(())).unwrap_err(), "the switch is busy, or stopping");
            started.elapsed().as_secs_f64()
        };
        let waited = refused();
        assert!((9.8..15.0).contains(&waited), "there is room for a sixteenth: {waited} s");
        let waited = refused();
        assert!(waited < 5.0, "and for no other: {waited} s");
    }
}
