//! A controller as the source of a page: the switches of its network, and the links between them.

use super::{Map, Node, Source};
use crate::answers::PortName;
use crate::api::Answering;
use crate::api::controller::ControllerApi;

impl Source for ControllerApi {
    const KIND: &'static str = "controller";

    fn name(&self) -> String {
        self.name().to_owned()
    }

    /// Which switches have hosts is not known to a controller.
    fn map(&self) -> Map {
        let mut map = Map::default();
        for switch in self.switches().switches {
            let state = if switch.connected { "connected" } else { "not connected" };
            map.nodes.push(Node { is_down: !switch.connected, note: state.into(), ..Node::switch(&switch.name, 0) });
        }
        for ends in self.links().0 {
            map.link(ends.each_ref().map(|PortName { switch, port }| (&**switch, &**port)));
        }
        map
    }
}
