//! The answers that the page shows, asked as the API's clients ask.

use std::sync::Arc;

use super::Source;
use crate::answers::{
    Attention, Claimed, Document, HeavyChanges, HeavyFlows, Latency, Loops, Losses, Numbers, Paths, Places,
    Utilisation, Values,
};
use crate::api::{HeavyQuery, document, in_turn};
use crate::program::ProgramConfig;
use crate::wire::Pattern;

/// Flows that are named in a list.
pub const LISTED: usize = 50;
/// Flows whose paths tell how busy links are.
const PATHS: usize = 1000;
/// Flows of those that a reader has chosen by a pattern.
const CHOSEN: usize = 5;

/// An answer, unless nothing answers the task.
pub type Asked<A> = Option<Claimed<A>>;

/// The answers about all flows.
#[derive(Default)]
pub struct Answers {
    pub losses: Asked<Losses>,
    pub places: Asked<Places>,
    pub heavy: Asked<HeavyFlows>,
    pub changes: Asked<HeavyChanges>,
    pub cardinality: Asked<Numbers>,
    pub paths: Asked<Paths>,
    pub latency: Asked<Latency>,
    pub loops: Asked<Loops>,
    pub utilisation: Asked<Utilisation>,
    pub values: Asked<Values>,
    /// Of each program that is measured with parameters that change, with its name.
    pub attention: Vec<(String, Claimed<Attention>)>,
    /// Why no losses are answered.
    pub why_no_losses: String,
}

/// The answers about chosen flows.
#[derive(Default)]
pub struct FlowAnswers {
    pub losses: Asked<Losses>,
    pub heavy: Asked<HeavyFlows>,
    pub paths: Asked<Paths>,
    pub latency: Asked<Latency>,
    pub utilisation: Asked<Utilisation>,
}

/// Asks one question, behind those of the API's clients.
async fn ask<S: Source, A: Document + Send + 'static>(
    source: &Arc<S>,
    query: &HeavyQuery,
) -> Result<Claimed<A>, String> {
    let (source, query) = (source.clone(), query.clone());
    let asked = in_turn(move || document(&*source, A::TASK, &query)).await?;
    asked.into_document().ok_or_else(|| "the answer is to another question".into())
}

impl Answers {
    pub async fn ask<S: Source>(source: &Arc<S>) -> Self {
        let listed = HeavyQuery { top: LISTED, ..HeavyQuery::default() };
        let paths = HeavyQuery { top: PATHS, ..HeavyQuery::default() };
        let losses = ask(source, &listed).await;
        let why_no_losses = losses.as_ref().err().cloned().unwrap_or_default();
        Self {
            losses: losses.ok(),
            places: ask(source, &listed).await.ok(),
            heavy: ask(source, &listed).await.ok(),
            changes: ask(source, &listed).await.ok(),
            cardinality: ask(source, &listed).await.ok(),
            paths: ask(source, &paths).await.ok(),
            latency: ask(source, &listed).await.ok(),
            loops: ask(source, &listed).await.ok(),
            utilisation: ask(source, &paths).await.ok(),
            values: ask(source, &listed).await.ok(),
            attention: attention(source).await,
            why_no_losses,
        }
    }
}

async fn attention<S: Source>(source: &Arc<S>) -> Vec<(String, Claimed<Attention>)> {
    let mut answers = Vec::new();
    for program in ProgramConfig::names() {
        let query = HeavyQuery { program: Some(program.into()), ..HeavyQuery::default() };
        answers.extend(ask(source, &query).await.ok().map(|answer| (program.to_owned(), answer)));
    }
    answers
}

impl FlowAnswers {
    pub async fn ask<S: Source>(source: &Arc<S>, flow: &Pattern) -> Self {
        let query = HeavyQuery { top: CHOSEN, flow: Some(flow.to_string()), ..HeavyQuery::default() };
        Self {
            losses: ask(source, &query).await.ok(),
            heavy: ask(source, &query).await.ok(),
            paths: ask(source, &query).await.ok(),
            latency: ask(source, &query).await.ok(),
            utilisation: ask(source, &query).await.ok(),
        }
    }
}
