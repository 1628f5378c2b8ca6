//! `POST /v1/registers`: the registers of programs at the end of an epoch.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Answer, Body, refuse};
use super::observers::{LOOK_EVERY, seconds};
use super::service::AnySwitch;
use super::view::{CellStream, ProgramLayout, ProgramRegisters, RegisterBank, Registers};
use crate::program::ProgramConfig;
use crate::telemetry::{BankCells, Dump, RegisterTap};

/// The path of [`dump`], whose answer may be long in coming.
pub const REGISTERS: &str = "/v1/registers";
/// Maximum time that a dump waits for its epoch to end, in seconds: an epoch has at most an hour.
const LONGEST: f64 = 7300.0;

/// `POST /v1/registers`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RegisterQuery {
    /// By default all programs.
    pub program: Option<String>,
    pub timeout_seconds: f64,
}

impl Default for RegisterQuery {
    fn default() -> Self {
        Self { program: None, timeout_seconds: 10.0 }
    }
}

/// A dump whose banks may not have come yet.
pub struct PendingDump {
    dump: Dump,
    programs: Vec<(usize, String, ProgramLayout)>,
    cores: Vec<usize>,
    epoch_ns: u64,
}

impl PendingDump {
    /// Asks `tap` for the registers of a program, or of all.
    ///
    /// # Errors
    /// If there is no such program, or another dump is under way.
    pub fn new(
        tap: &RegisterTap,
        (switch, programs): (&str, &[ProgramConfig]),
        wanted: Option<&str>,
        cores: &[usize],
        epoch_ns: u64,
    ) -> Result<Self, String> {
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted == name);
        let named = ProgramConfig::named(programs).enumerate().filter(|(_, (name, _))| is_wanted(name));
        let described = named.map(|(place, (name, program))| {
            let layout = program.layout(switch).map_err(|error| error.to_string())?;
            Ok((place, name, ProgramLayout::new(&layout)))
        });
        let described = described.collect::<Result<Vec<_>, String>>()?;
        if described.is_empty() {
            let names = ProgramConfig::named(programs).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            return Err(match wanted.filter(|_| !names.is_empty()) {
                Some(wanted) => format!("the switch runs no program {wanted}; it runs {names}"),
                None => "the switch runs no program".into(),
            });
        }
        let places = described.iter().map(|(place, ..)| *place).collect();
        let dump = tap.ask(places, cores.len()).map_err(|error| error.to_string())?;
        Ok(Self { dump, programs: described, cores: cores.into(), epoch_ns })
    }

    /// The registers, once all have come.
    pub fn poll(&self) -> Option<Result<Registers<CellStream>, String>> {
        Some(self.dump.poll()?.map_err(|error| error.to_string()).and_then(|banks| self.document(banks)))
    }

    fn document(&self, mut banks: Vec<BankCells>) -> Result<Registers<CellStream>, String> {
        banks.sort_by_key(|bank| (bank.of.replica, bank.of.part));
        let program = |(place, name, layout): &(usize, String, ProgramLayout)| {
            let its = banks.iter().filter(|bank| bank.of.program == *place).cloned();
            let bank = |bank: BankCells| {
                let core = self.cores.get(bank.of.replica).copied().unwrap_or_default();
                RegisterBank::new(bank, layout, core, self.epoch_ns)
            };
            let banks = its.map(bank).collect::<Option<_>>();
            let banks = banks.ok_or_else(|| format!("{name} has other registers than its layout says"))?;
            Ok(ProgramRegisters { program: name.clone(), layout: layout.clone(), banks })
        };
        Ok(Registers { programs: self.programs.iter().map(program).collect::<Result<_, String>>()? })
    }
}

/// Answers when the epoch has ended in all cores.
pub async fn dump(State(service): State<AnySwitch>, Body(query): Body<RegisterQuery>) -> Answer<Registers<CellStream>> {
    let end = Instant::now() + seconds("timeout_seconds", query.timeout_seconds, LONGEST)?;
    let pending = service.registers(query.program.as_deref()).map_err(refuse)?;
    loop {
        let over = Instant::now() >= end;
        if let Some(found) = pending.poll() {
            return found.map(Json).map_err(refuse);
        }
        if over {
            return Err(refuse(format!("no epoch ended within {} s", query.timeout_seconds)));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
