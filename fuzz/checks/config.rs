//! The configuration file on any text: nothing panics, and what is accepted passes its own check
//! and is complete.

use weir::config::Config;

pub fn run(text: &str) {
    match Config::parse(text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(config) => {
            config.validate().unwrap();
            assert!(config.ports.iter().all(|port| config.port(&port.name).is_some()));
            config.pairs().unwrap();
            // Written out, it is the same configuration.
            let written = serde_json::to_value(&config).unwrap();
            assert_eq!(serde_json::from_value::<Config>(written).unwrap(), config);
        }
    }
}
