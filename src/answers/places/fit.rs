//! Which flows lost packets where: the packets that a member lost in a group are those that flows of the
//! group lost.
//!
//! Each epoch and group is a table with known sums: a row for each flow that lost packets, a column for each
//! member that did. Proportional fitting fills it in: of all tables with these sums it is the one that is
//! nearest to a flow's packets being lost at its members in proportion to what these lost. A cell whose least
//! and largest possible numbers are equal is exact. What flows lost in all and members did not, or the other
//! way round, stands in a column or a row of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::compare::{Compared, Member};
use crate::answers::{Certainty, FlowName, Routes};
use crate::wire::Flow;

/// Rounds of fitting, of which each halves what is left of most errors.
const ROUNDS: usize = 40;

/// Packets of a flow that were lost at a member.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub packets: f64,
    pub least: u64,
    pub most: u64,
    /// The probability that none of the flow's packets was lost there.
    pub none: f64,
}

/// Packets that a flow lost in an epoch.
#[derive(Clone, Copy, Debug)]
pub struct LostOfFlow {
    pub name: FlowName,
    pub lost: f64,
    /// Those of them of which the member that lost them is certain.
    pub certain: f64,
}

/// Flows and where they lost packets, over several epochs.
#[derive(Debug, Default)]
pub struct Names {
    pub shares: HashMap<(Member, FlowName), Share>,
    /// Packets that flows lost, and those of them that no member did.
    pub lost: u64,
    pub unplaced: f64,
    /// Of the epoch added last, the packets that flows lost, and those of them that members lost for certain.
    pub of_epoch: Vec<LostOfFlow>,
    /// And of these members, the packets that are certain.
    pub certain: HashMap<Member, f64>,
    /// Flows of which no member of the path that they are believed to take lost a packet.
    pub wrong_paths: BTreeSet<FlowName>,
    /// Epochs of which the flows are not known.
    pub unknown_epochs: u64,
}

/// The inputs of an epoch's fit.
pub struct OfEpoch<'a> {
    pub epoch: u64,
    pub compared: &'a [Compared],
    pub victims: &'a [(FlowName, u64)],
    pub routes: Option<&'a Arc<dyn Routes>>,
    /// The hash whose highest bits are a flow's group.
    pub hash: &'a dyn Fn(&Flow) -> Option<u32>,
}

impl Names {
    pub fn add(&mut self, of: &OfEpoch<'_>) {
        self.of_epoch.clear();
        self.certain.clear();
        let losing: Vec<&Compared> = of.compared.iter().filter(|compared| compared.lost > 0).collect();
        let groups = losing.iter().map(|compared| compared.missing.len()).min().unwrap_or(1).max(1);
        let mut by_group: BTreeMap<usize, Vec<(FlowName, u64)>> = BTreeMap::new();
        for (name, packets) in of.victims {
            self.lost = self.lost.saturating_add(*packets);
            let hash = name.flow().and_then(|flow| (of.hash)(&flow));
            match hash {
                Some(hash) => {
                    let group = (u64::from(hash) >> (u32::BITS - groups.ilog2())) as usize;
                    by_group.entry(group).or_default().push((*name, *packets));
                }
                None => {
                    self.unplaced += *packets as f64;
                    self.of_epoch.push(LostOfFlow { name: *name, lost: *packets as f64, certain: 0.0 });
                }
            }
        }
        for (group, victims) in by_group {
            let columns: Vec<(&Compared, f64)> = losing
                .iter()
                .map(|compared| (*compared, lost_in(compared, group, groups)))
                .filter(|(_, lost)| *lost > 0.0)
                .collect();
            self.add_group(of, &victims, &columns);
        }
    }

    fn add_group(&mut self, of: &OfEpoch<'_>, victims: &[(FlowName, u64)], columns: &[(&Compared, f64)]) {
        let allowed: Vec<Vec<bool>> = victims.iter().map(|(name, _)| self.allowed(of, name, columns)).collect();
        let table = Table::new(victims, columns, &allowed);
        let fitted = table.fitted();
        for (i, (name, packets)) in victims.iter().enumerate() {
            self.unplaced += fitted[i][columns.len()];
            let mut certain = 0.0;
            for (j, (compared, _)) in columns.iter().enumerate().filter(|(j, _)| allowed[i][*j]) {
                let (least, most) = table.bounds(i, j);
                if least > 0 {
                    certain += least as f64;
                    *self.certain.entry(compared.member.clone()).or_default() += least as f64;
                }
                let chance = (fitted[i][j] / *packets as f64).clamp(0.0, 1.0);
                let none = if least > 0 { 0.0 } else { (1.0 - chance).powf(*packets as f64) };
                let fresh = Share { packets: 0.0, least: 0, most: 0, none: 1.0 };
                let share = self.shares.entry((compared.member.clone(), *name)).or_insert(fresh);
                share.packets += fitted[i][j];
                share.least += least;
                share.most += most;
                share.none *= none;
            }
            self.of_epoch.push(LostOfFlow { name: *name, lost: *packets as f64, certain });
        }
    }

    /// The members on a flow's path, where that is known; else all. So it is with a path of which all members
    /// were compared and none lost a packet: it cannot be the flow's.
    fn allowed(&mut self, of: &OfEpoch<'_>, name: &FlowName, columns: &[(&Compared, f64)]) -> Vec<bool> {
        let all = vec![true; columns.len()];
        let paths: Vec<Vec<Arc<str>>> = match (of.routes, name.flow()) {
            (Some(routes), Some(flow)) => {
                let known = routes.in_epoch(&flow, of.epoch);
                if known.iter().any(|route| route.certainty < Certainty::Decided) {
                    return all;
                }
                known.iter().map(|route| route.switches.iter().flatten().cloned().collect()).collect()
            }
            _ => return all,
        };
        if paths.is_empty() {
            return all;
        }
        let on_path = |(compared, _): &(&Compared, f64)| paths.iter().any(|path| compared.member.is_on(path));
        let allowed: Vec<bool> = columns.iter().map(on_path).collect();
        let is_compared = |path: &Vec<Arc<str>>| crosses_alone(of.compared.iter().map(|of| &of.member), path);
        if !columns.is_empty() && !allowed.contains(&true) && paths.iter().all(is_compared) {
            self.wrong_paths.insert(*name);
            return all;
        }
        allowed
    }
}

/// Whether all switches and links of a path are among these members.
pub fn crosses_alone<'a>(members: impl Iterator<Item = &'a Member> + Clone, path: &[Arc<str>]) -> bool {
    let has = |part: &[Arc<str>]| {
        members.clone().any(|member| match member {
            Member::Switch(_) if part.len() > 1 => false,
            member => member.is_on(part),
        })
    };
    path.windows(2).all(has) && path.iter().all(|switch| has(std::slice::from_ref(switch)))
}

/// Losses of a member in a group. Where late packets were taken off its sum, each group has its share of
/// what is left.
fn lost_in(compared: &Compared, group: usize, groups: usize) -> f64 {
    let of = compared.missing.len() / groups;
    let positive = |counts: &[i64]| counts.iter().filter(|count| **count > 0).sum::<i64>() as f64;
    let (here, all) = (positive(&compared.missing[group * of..(group + 1) * of]), positive(&compared.missing));
    if all > compared.lost as f64 { here * compared.lost as f64 / all } else { here }
}

/// A table of flows and members with known sums, and a row and a column for what is left.
struct Table {
    rows: Vec<f64>,
    columns: Vec<f64>,
    allowed: Vec<Vec<bool>>,
}

impl Table {
    fn new(victims: &[(FlowName, u64)], columns: &[(&Compared, f64)], allowed: &[Vec<bool>]) -> Self {
        let mut rows: Vec<f64> = victims.iter().map(|(_, packets)| *packets as f64).collect();
        let mut sums: Vec<f64> = columns.iter().map(|(_, lost)| *lost).collect();
        let difference = rows.iter().sum::<f64>() - sums.iter().sum::<f64>();
        rows.push((-difference).max(0.0));
        sums.push(difference.max(0.0));
        let mut allowed: Vec<Vec<bool>> = allowed.to_vec();
        allowed.iter_mut().for_each(|row| row.push(difference > 0.0));
        let mut last = vec![true; columns.len()];
        last.push(false);
        allowed.push(last);
        Self { rows, columns: sums, allowed }
    }

    /// The table by proportional fitting. A flow's row that cannot be filled is put into the last column.
    fn fitted(&self) -> Vec<Vec<f64>> {
        let mut cells: Vec<Vec<f64>> = self
            .allowed
            .iter()
            .map(|row| row.iter().zip(&self.columns).map(|(is, sum)| if *is { *sum } else { 0.0 }).collect())
            .collect();
        for _ in 0..ROUNDS {
            for (row, sum) in cells.iter_mut().zip(&self.rows) {
                scale(row.iter_mut(), *sum);
            }
            for (j, sum) in self.columns.iter().enumerate() {
                scale(cells.iter_mut().filter_map(|row| row.get_mut(j)), *sum);
            }
        }
        let last = self.columns.len() - 1;
        for (row, sum) in cells.iter_mut().zip(&self.rows) {
            let placed: f64 = row[..last].iter().sum();
            row[last] = (sum - placed).max(0.0);
        }
        cells
    }

    /// The least and the largest number that a cell can have.
    fn bounds(&self, i: usize, j: usize) -> (u64, u64) {
        let (row, column) = (self.rows[i], self.columns[j]);
        let others = |sums: f64, allowed: &mut dyn Iterator<Item = f64>| (sums - allowed.sum::<f64>()).max(0.0);
        let in_row = others(
            row,
            &mut self.columns.iter().enumerate().filter(|(k, _)| *k != j && self.allowed[i][*k]).map(|(_, sum)| *sum),
        );
        let in_column = others(
            column,
            &mut self.rows.iter().enumerate().filter(|(k, _)| *k != i && self.allowed[*k][j]).map(|(_, sum)| *sum),
        );
        let most = row.min(column);
        // Whole packets, but for what late ones have left of a group.
        (in_row.max(in_column).min(most).floor() as u64, most.ceil() as u64)
    }
}

/// Scales numbers to this sum.
fn scale<'a>(numbers: impl Iterator<Item = &'a mut f64>, sum: f64) {
    let numbers: Vec<&mut f64> = numbers.collect();
    let now: f64 = numbers.iter().map(|number| **number).sum();
    if now > 0.0 {
        numbers.into_iter().for_each(|number| *number *= sum / now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(sport: u16) -> FlowName {
        FlowName::Flow(Flow::from_port(sport))
    }

    fn member(name: &str, missing: &[i64]) -> Compared {
        let lost = missing.iter().sum::<i64>() as u64;
        Compared {
            member: Member::Switch(name.into()),
            missing: missing.to_vec(),
            lost,
            gained: 0,
            least: lost,
            most: Some(lost),
            sent: 1000,
            known: BTreeMap::new(),
            is_full: false,
        }
    }

    /// Flows hash to the group that their port says, of two.
    fn names(compared: &[Compared], victims: &[(FlowName, u64)]) -> Names {
        let hash = |flow: &Flow| Some(u32::from(flow.sport? & 1) << 31);
        let mut names = Names::default();
        names.add(&OfEpoch { epoch: 1, compared, victims, routes: None, hash: &hash });
        names
    }

    fn share(names: &Names, member: &Compared, flow: FlowName) -> (u64, u64, u64) {
        let share = names.shares[&(member.member.clone(), flow)];
        (share.packets.round() as u64, share.least, share.most)
    }

    #[test]
    fn what_is_forced_is_exact() {
        // Group 0 has one flow, group 1 one member.
        let members = [member("a", &[3, 0]), member("b", &[4, 9])];
        let names = names(&members, &[(flow(2), 7), (flow(1), 5), (flow(3), 4)]);
        assert_eq!(share(&names, &members[0], flow(2)), (3, 3, 3));
        assert_eq!(share(&names, &members[1], flow(2)), (4, 4, 4));
        assert_eq!(share(&names, &members[1], flow(1)), (5, 5, 5));
        assert_eq!(share(&names, &members[1], flow(3)), (4, 4, 4));
        assert_eq!((names.lost, names.unplaced.round() as u64), (16, 0));
    }

    #[test]
    fn what_is_not_forced_is_in_proportion_and_has_bounds() {
        let members = [member("a", &[0, 30]), member("b", &[0, 10])];
        let names = names(&members, &[(flow(1), 20), (flow(3), 20)]);
        assert_eq!(share(&names, &members[0], flow(1)), (15, 10, 20));
        assert_eq!(share(&names, &members[1], flow(3)), (5, 0, 10));
    }

    #[test]
    fn what_only_one_side_has_is_not_given_to_anybody() {
        let members = [member("a", &[0, 5])];
        let more = names(&members, &[(flow(1), 9), (flow(2), 2)]);
        assert_eq!((share(&more, &members[0], flow(1)), more.unplaced.round() as u64), ((5, 5, 5), 6));
        // Flows that nobody named lost the rest.
        let fewer = names(&members, &[(flow(1), 2)]);
        assert_eq!(share(&fewer, &members[0], flow(1)), (2, 2, 2));
        assert!(fewer.unplaced < 0.5);
    }
}
