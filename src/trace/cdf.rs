//! Flow-size distributions of published measurements: the few points that each is given by.

use crate::text::named;

named! {
    /// A measured distribution of flow sizes in bytes. Between two points it is linear.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Cdf {
        /// Web search cluster of Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010.
        WebSearch = "websearch",
        /// Data mining cluster of Greenberg et al., "VL2", SIGCOMM 2009.
        DataMining = "datamining",
        /// Facebook's Hadoop racks of Roy et al., "Inside the Social Network's (Datacenter) Network",
        /// SIGCOMM 2015, with the points that the evaluation of HPCC (SIGCOMM 2019) uses.
        Hadoop = "hadoop",
        /// Facebook's cache followers, traffic inside the cluster (Roy et al., SIGCOMM 2015). The 332
        /// points in use with Homa (SIGCOMM 2018) are thinned to 20.
        Cache = "cache",
        /// Requests of Facebook's key-value caches (Atikoglu et al., SIGMETRICS 2012), nearly all of
        /// one packet: the points that the traffic generator of Bai et al. (NSDI 2016) uses. What
        /// ChameleMon's evaluation calls CACHE.
        KeyValue = "keyvalue",
    }
}

const WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

const DATA_MINING: [(f64, f64); 13] = [
    (0.0, 0.0),
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

const HADOOP: [(f64, f64); 20] = [
    (0.0, 0.0),
    (100.0, 0.01),
    (200.0, 0.02),
    (300.0, 0.05),
    (350.0, 0.15),
    (400.0, 0.2),
    (500.0, 0.3),
    (600.0, 0.4),
    (700.0, 0.5),
    (1e3, 0.6),
    (2e3, 0.67),
    (7e3, 0.7),
    (30e3, 0.72),
    (50e3, 0.82),
    (80e3, 0.87),
    (120e3, 0.9),
    (300e3, 0.95),
    (1e6, 0.975),
    (2e6, 0.99),
    (10e6, 1.0),
];

const CACHE: [(f64, f64); 20] = [
    (50.0, 0.0),
    (144.0, 0.0409),
    (394.0, 0.219),
    (626.0, 0.3152),
    (1222.0, 0.403),
    (1440.0, 0.4238),
    (3887.0, 0.4602),
    (12_161.0, 0.4811),
    (58_394.0, 0.5167),
    (107_175.0, 0.5368),
    (175_489.0, 0.578),
    (248_136.0, 0.6227),
    (416_360.0, 0.6803),
    (1_431_371.0, 0.7212),
    (1_744_186.0, 0.7713),
    (1_865_505.0, 0.8011),
    (2_259_343.0, 0.8606),
    (2_553_169.0, 0.9276),
    (2_933_211.0, 0.9829),
    (3_837_698.0, 1.0),
];

const KEY_VALUE: [(f64, f64); 17] = [
    (0.0, 0.0),
    (3.0, 0.28),
    (10.0, 0.32),
    (12.0, 0.44),
    (75.0, 0.5),
    (250.0, 0.75),
    (350.0, 0.9),
    (1e3, 0.965),
    (2515.0, 0.98),
    (6326.0, 0.99),
    (10_032.0, 0.995),
    (15_910.0, 0.997),
    (23_009.0, 0.9992),
    (24_094.0, 0.9996),
    (25e3, 0.9999),
    (100e3, 0.999_99),
    (1e6, 1.0),
];

/// Bytes that one packet carries when sizes are turned into packets.
const PAYLOAD: f64 = 1500.0;

impl Cdf {
    /// (bytes, fraction of flows up to that size), both increasing.
    pub fn points(self) -> &'static [(f64, f64)] {
        match self {
            Self::WebSearch => &WEB_SEARCH,
            Self::DataMining => &DATA_MINING,
            Self::Hadoop => &HADOOP,
            Self::Cache => &CACHE,
            Self::KeyValue => &KEY_VALUE,
        }
    }

    /// The size in bytes below which the fraction `u` (0 to 1) of the flows lies.
    pub fn quantile(self, u: f64) -> f64 {
        let points = self.points();
        let upper = points.partition_point(|&(_, f)| f < u).clamp(1, points.len() - 1);
        let ((b0, f0), (b1, f1)) = (points[upper - 1], points[upper]);
        b0 + (b1 - b0) * ((u - f0) / (f1 - f0)).clamp(0.0, 1.0)
    }

    /// Packets of a flow at the quantile `u`: its bytes in full packets of 1500, at least one
    /// packet.
    pub fn packets(self, u: f64) -> u32 {
        ((self.quantile(u) / PAYLOAD).ceil() as u32).max(1)
    }

    pub fn mean_bytes(self) -> f64 {
        self.points().windows(2).map(|w| (w[0].0 + w[1].0) / 2.0 * (w[1].1 - w[0].1)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Cdf;

    #[test]
    fn points_increase_from_zero_to_one() {
        for cdf in Cdf::ALL {
            let p = cdf.points();
            assert!(p[0].1 == 0.0 && p[p.len() - 1].1 == 1.0, "{cdf:?}");
            assert!(p.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1), "{cdf:?}");
        }
    }

    #[test]
    fn quantiles_run_through_the_points() {
        for cdf in Cdf::ALL {
            for &(bytes, fraction) in cdf.points() {
                assert!((cdf.quantile(fraction) - bytes).abs() <= 1e-9 * bytes, "{cdf:?} {bytes}");
            }
        }
        assert!((Cdf::WebSearch.quantile(0.65) - 600e3).abs() < 1e-3);
        assert_eq!(
            (Cdf::WebSearch.packets(0.0), Cdf::WebSearch.packets(0.15), Cdf::WebSearch.packets(1.0)),
            (1, 7, 20_000)
        );
    }

    /// The thinned table keeps the mean that its source states (692 975.6 bytes) to two percent.
    #[test]
    fn thinning_keeps_the_mean() {
        assert!((Cdf::Cache.mean_bytes() / 692_975.6 - 1.0).abs() < 0.02, "{}", Cdf::Cache.mean_bytes());
    }
}
