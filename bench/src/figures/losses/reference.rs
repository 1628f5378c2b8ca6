//! What the authors' C++ classes took, measured by us.

use super::sketch::Link;

#[derive(Clone, Debug)]
pub struct Row {
    pub structure: &'static str,
    pub flows: usize,
    pub fingerprint_bits: u32,
    pub buckets_per_flow: Option<f64>,
    pub bytes: f64,
    pub success: f64,
    pub decode_ms: Option<f64>,
}

pub fn rows() -> Vec<Row> {
    let text = include_str!("../../../data/fermat_flowradar_lossradar.csv");
    let number = |field: &str| field.trim_start_matches(">=").parse::<f64>().ok();
    let row = |line: &'static str| {
        let fields: Vec<&str> = line.split(',').collect();
        Some(Row {
            structure: fields[0],
            flows: fields[1].parse().ok()?,
            fingerprint_bits: fields[3].parse().unwrap_or(0),
            buckets_per_flow: number(fields[4]),
            bytes: number(fields[5])?,
            success: number(fields[6])?,
            decode_ms: number(fields[8]),
        })
    };
    text.lines().skip(1).filter_map(row).collect()
}

/// The least memory that was found to do for a link.
pub fn sufficient(structure: &str, link: Link) -> Option<Row> {
    let items = match structure {
        "fermat" => link.victims,
        "flowradar" => link.flows,
        // Theirs was measured with other sizes, so with other numbers of lost packets.
        _ => return None,
    };
    let fits =
        |row: &Row| (row.structure, row.flows, row.fingerprint_bits) == (structure, items, 0) && row.success >= 0.999;
    rows().into_iter().filter(fits).min_by(|a, b| a.bytes.total_cmp(&b.bytes))
}

/// Success against buckets a flow, without or with a fingerprint of 32 bits.
pub fn success(flows: usize, fingerprint: bool) -> Vec<(f64, f64)> {
    let fits = |row: &Row| row.structure == "fermat" && row.flows == flows && (row.fingerprint_bits > 0) == fingerprint;
    rows().into_iter().filter(fits).filter_map(|row| Some((row.buckets_per_flow?, row.success))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        assert_eq!(rows().len(), 20);
        let link = Link { flows: 10_000, victims: 1000, loss: 0.01 };
        let bytes = |structure| sufficient(structure, link).unwrap().bytes;
        assert_eq!([bytes("fermat"), bytes("flowradar")], [19_488.0, 167_736.0]);
        assert!(sufficient("weir", link).is_none() && sufficient("lossradar", link).is_none());
        assert_eq!(success(10_000, true), [(1.24, 0.993), (1.25, 1.0)]);
    }
}
