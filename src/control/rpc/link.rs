//! What stands between a switch and its controller: which records are sent, which orders hold, and how it goes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use super::messages::{Order, Record};
use super::proto::FromSwitch;
use super::proto::from_switch::What;
use crate::control::{Closed, Sink, view};
use crate::pisa::hash::Polynomials;
use crate::program;
use crate::program::chamelemon::Schedule;

/// Orders that are kept for programs that come later.
const KEPT_ORDERS: usize = 8;

#[derive(Debug)]
pub struct Link {
    at: String,
    standing: Mutex<Standing>,
    connections: AtomicU64,
    sent: AtomicU64,
    unsent: AtomicU64,
    partial: AtomicU64,
    orders: AtomicU64,
    renewed: Notify,
}

#[derive(Debug, Default)]
struct Standing {
    /// Why there is no connection.
    why: Option<String>,
    schedule: Option<Schedule>,
    polynomials: Option<Polynomials>,
    /// By epoch.
    orders: Vec<Order>,
    /// Where records go while the switch is taken in.
    to: Option<mpsc::Sender<FromSwitch>>,
    /// The number of `unsent` that the controller has been told of.
    told_unsent: u64,
}

impl Link {
    /// To the controller at `at`, whose orders go to `schedule`.
    pub fn new(at: String, schedule: Option<Schedule>) -> Arc<Self> {
        let standing = Standing { schedule, why: Some("not dialled yet".into()), ..Standing::default() };
        Arc::new(Self {
            at,
            standing: Mutex::new(standing),
            connections: AtomicU64::default(),
            sent: AtomicU64::default(),
            unsent: AtomicU64::default(),
            partial: AtomicU64::default(),
            orders: AtomicU64::default(),
            renewed: Notify::new(),
        })
    }

    /// What the collector is to give its records to.
    pub fn reporter(self: &Arc<Self>) -> Box<dyn Sink> {
        Box::new(Reporter { link: self.clone(), whole_from: None })
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes back when the switch's programs have been replaced.
    pub(super) async fn renewed(&self) {
        self.renewed.notified().await;
    }

    /// The hash functions of the network, once they are known.
    pub fn polynomials(&self) -> Option<Polynomials> {
        self.standing().polynomials
    }

    pub(super) fn hashes_otherwise(&self, polynomials: &Polynomials) -> bool {
        self.standing().polynomials.as_ref() != Some(polynomials)
    }

    /// The switch is taken in and hashes with `polynomials`.
    pub(super) fn welcomed(
        &self,
        polynomials: Polynomials,
        orders: Vec<Order>,
        to: mpsc::Sender<FromSwitch>,
    ) -> Result<(), String> {
        let mut standing = self.standing();
        standing.polynomials = Some(polynomials);
        orders.into_iter().try_for_each(|order| standing.take(order))?;
        (standing.to, standing.why) = (Some(to), None);
        drop(standing);
        self.connections.fetch_add(1, Relaxed);
        tracing::info!(target: "weir", event = "controller", connected = true, "controller {}: connected", self.at);
        Ok(())
    }

    pub(super) fn ordered(&self, order: Order) -> Result<(), String> {
        self.orders.fetch_add(1, Relaxed);
        self.standing().take(order)
    }

    /// There is no connection. Said once for each reason.
    pub(super) fn left(&self, why: &str) {
        let mut standing = self.standing();
        standing.to = None;
        if standing.why.as_deref() != Some(why) {
            tracing::warn!(target: "weir", event = "controller", connected = false, "controller {}: {why}", self.at);
            standing.why = Some(why.to_owned());
        }
    }

    pub fn view(&self) -> view::ControllerLink {
        let standing = self.standing();
        view::ControllerLink {
            at: self.at.clone(),
            connected: standing.to.is_some(),
            why: standing.why.clone(),
            connections: self.connections.load(Relaxed),
            sent_records: self.sent.load(Relaxed),
            unsent_records: self.unsent.load(Relaxed),
            partial_records: self.partial.load(Relaxed),
            orders: self.orders.load(Relaxed),
        }
    }
}

impl Standing {
    fn take(&mut self, order: Order) -> Result<(), String> {
        self.orders.retain(|earlier| earlier.from < order.from);
        self.orders.push(order);
        if self.orders.len() > KEPT_ORDERS {
            self.orders.remove(0);
        }
        self.tell(order)
    }

    fn tell(&self, order: Order) -> Result<(), String> {
        let Some(schedule) = &self.schedule else { return Ok(()) };
        schedule.order(order.from, order.runtime).map_err(|error| error.to_string())
    }
}

/// Sends records, on the collector's thread.
struct Reporter {
    link: Arc<Link>,
    /// The first epoch that the programs in use have measured from its beginning, once it is known.
    whole_from: Option<u64>,
}

impl Reporter {
    /// Programs that are replaced begin within an epoch, and where several workers change one after the other perhaps in two.
    fn is_partial(&mut self, first: u64, last: u64) -> bool {
        let from = *self.whole_from.get_or_insert(last + 2);
        first < from
    }

    fn send(&mut self, epoch: Closed<'_>) -> Option<()> {
        let record = epoch.records.iter().find_map(|record| match record {
            program::Record::ChameleMon(sketches) => Some(sketches),
            program::Record::HashPipe(_) => None,
        })?;
        let partial = self.is_partial(epoch.first, epoch.last);
        let mut standing = self.link.standing();
        let unsent = self.link.unsent.load(Relaxed);
        let Standing { to, polynomials, told_unsent, .. } = &mut *standing;
        let taken = polynomials.as_ref().is_some_and(|polynomials| record.is_hashed_with(polynomials));
        let Some(place) = to.as_ref().and_then(|to| to.try_reserve().ok()) else {
            self.link.unsent.fetch_add(1, Relaxed);
            return None;
        };
        if partial || !taken {
            self.link.partial.fetch_add(1, Relaxed);
            return None;
        }
        let (first, last, sketches) = (epoch.first, epoch.last, record.encode().into());
        let record = Record { first, last, sketches, unsent: unsent - *told_unsent };
        *told_unsent = unsent;
        place.send(FromSwitch { what: Some(What::Record(record.into())) });
        self.link.sent.fetch_add(1, Relaxed);
        Some(())
    }
}

impl Sink for Reporter {
    fn closed(&mut self, epoch: Closed<'_>) {
        self.send(epoch);
    }

    fn renewed(&mut self, schedules: &[Option<Schedule>]) {
        self.whole_from = None;
        let mut standing = self.link.standing();
        standing.schedule = schedules.iter().flatten().next().cloned();
        for order in &standing.orders {
            // One that does not fit the new programs comes again with the next welcome, or not at all.
            let _ = standing.tell(*order);
        }
        drop(standing);
        self.link.renewed.notify_one();
    }
}
