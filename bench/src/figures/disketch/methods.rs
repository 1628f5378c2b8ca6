//! The methods that are compared.

use weir::program::disketch::{Config, Decode, Rho};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Five rows in each core switch, read out once for the whole window.
    Core,
    /// One row a switch, read out once for the whole window.
    Window,
    /// DISCO: one row a switch, with new hashes and zeroed in each epoch.
    Disco,
    /// DiSketch as the paper has it: equation 4, a target of the median error of the first epoch, medians.
    Paper,
    /// The robust measure with a target of 2 packets, medians.
    Robust,
    /// weir's default: the robust measure, and counts by likelihood.
    Likelihood,
    /// The same, with the counts of a HashPipe in each edge switch as lower bounds.
    Table,
    /// weir's default with sub-epochs that are spread over each path.
    Cover,
    /// DISCO's rows, and counts by likelihood.
    DiscoLikelihood,
}

/// How switches count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filling {
    /// Several rows in each core switch, and none elsewhere.
    pub core_alone: bool,
    /// Counters are read out once for the whole window.
    pub one_window: bool,
    /// The measure by which epochs are cut; `None` where none is cut.
    pub rho: Option<Rho>,
    /// The error that switches aim at; without it, the median of the first epoch.
    pub target: Option<f64>,
    pub cover: bool,
    pub single_hop: bool,
}

impl Method {
    /// Those that leave the same in the switches beside each other.
    pub const ALL: [Self; 9] = [
        Self::Core,
        Self::Window,
        Self::Disco,
        Self::DiscoLikelihood,
        Self::Paper,
        Self::Robust,
        Self::Likelihood,
        Self::Table,
        Self::Cover,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "agg",
            Self::Window => "window",
            Self::Disco => "disco",
            Self::Paper => "di-paper",
            Self::Robust => "di-robust",
            Self::Likelihood => "di-likelihood",
            Self::Table => "di-table",
            Self::Cover => "di-cover",
            Self::DiscoLikelihood => "disco-likelihood",
        }
    }

    /// What the method leaves in the switches.
    pub fn filling(self, single_hop: bool) -> Filling {
        let rho = match self {
            Self::Core | Self::Window | Self::Disco | Self::DiscoLikelihood => None,
            Self::Paper => Some(Rho::Paper),
            Self::Robust | Self::Likelihood | Self::Table | Self::Cover => Some(Rho::Robust),
        };
        let (core_alone, one_window) = (self == Self::Core, matches!(self, Self::Core | Self::Window));
        let config = rho.map(|rho| Config { rho, decode: self.decode(), ..Config::default() });
        let target = config.as_ref().and_then(Config::target);
        Filling { core_alone, one_window, rho, target, cover: self == Self::Cover, single_hop }
    }

    pub fn decode(self) -> Decode {
        match self {
            Self::Likelihood | Self::Table | Self::Cover | Self::DiscoLikelihood => Decode::Likelihood,
            _ => Decode::Median,
        }
    }
}
