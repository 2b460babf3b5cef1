//! `max.connections.per.ip` and its overrides, over all cores: every address is counted on one core, which the others ask.

use crate::core::DataCore;
use crate::messages::{CoreReply, CoreRequest};
use base::CoreId;
use config::NetConfig;
use net::Enter;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// Open connections of the addresses that one core counts; an address without any has no entry, so there are no more than
/// connections.
#[derive(Debug, Default)]
pub struct PerIp {
    open: HashMap<IpAddr, u32>,
}

impl PerIp {
    /// Counts one more connection of `ip` unless it has `max` already.
    fn try_add(&mut self, ip: IpAddr, max: u32) -> bool {
        let open = self.open.get(&ip).copied().unwrap_or(0);
        if open < max {
            self.open.insert(ip, open + 1);
        }
        open < max
    }

    /// Counts one connection of `ip` less.
    pub fn remove(&mut self, ip: IpAddr) {
        if let Some(open) = self.open.get_mut(&ip) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&ip);
            }
        }
    }
}

/// Connections that `ip` may have. Overrides name addresses, or `localhost`; other names are not looked up.
fn limit(net: &NetConfig, ip: IpAddr) -> u32 {
    let names = |host: &str| match host {
        "localhost" => ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST,
        host => host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|addr| addr.to_canonical() == ip),
    };
    let own = net.connections_per_ip_overrides.iter().find(|(host, _)| names(host));
    own.map_or(net.connections_per_ip_max, |(_, max)| *max)
}

/// The default of `max.connections.per.ip`, in effect no limit.
const UNLIMITED: u32 = i32::MAX as u32;

/// Where an address is counted.
fn counted_on(core: &DataCore, ip: IpAddr) -> CoreId {
    let bytes = match ip {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        // The network and the host.
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 ^ ip.to_bits() as u64,
    };
    CoreId((bytes % u64::from(core.layout.data_cores)) as u16)
}

/// Counts one more connection of `ip`, if addresses are limited at all.
pub fn enter(core: &Rc<DataCore>, ip: IpAddr) -> Enter {
    let (ip, config) = (ip.to_canonical(), core.config());
    if config.net.connections_per_ip_max == UNLIMITED && config.net.connections_per_ip_overrides.is_empty() {
        return Enter::Free;
    }
    let answer = core.ask(counted_on(core, ip), CoreRequest::EnterIp(ip));
    Enter::Asked(Box::pin(async move { matches!(answer.await, CoreReply::EnterIp(true)) }))
}

/// A connection of `ip` that was counted has ended.
pub fn left(core: &Rc<DataCore>, ip: IpAddr) {
    let ip = ip.to_canonical();
    core.tell(counted_on(core, ip), CoreRequest::LeftIp(ip));
}

/// Counts one more connection of an address that is counted here.
pub fn count(core: &DataCore, ip: IpAddr) -> bool {
    let max = limit(&core.config().net, ip);
    core.per_ip.borrow_mut().try_add(ip, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_and_a_closed_connection_makes_room() {
        let mut per_ip = PerIp::default();
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert!(per_ip.try_add(ip, 1) && !per_ip.try_add(ip, 1) && per_ip.try_add(ip, 2));
        per_ip.remove(ip);
        per_ip.remove(ip);
        assert!(per_ip.open.is_empty() && !per_ip.try_add(ip, 0) && per_ip.open.is_empty());
    }

    #[test]
    fn overrides_go_before_the_limit_of_all() {
        let text = "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=C\nlisteners=P://:9,C://:8\n\
                    listener.security.protocol.map=P:PLAINTEXT,C:PLAINTEXT\ninter.broker.listener.name=P\n\
                    controller.quorum.voters=1@localhost:8\nlog.dirs=/nowhere\n\
                    max.connections.per.ip=7\nmax.connections.per.ip.overrides=localhost:3,10.0.0.9:0\n";
        let properties = config::Properties::parse(text.as_bytes()).expect("properties");
        let net = config::BrokerConfig::from_properties(properties).expect("a configuration").net;
        let cases = [("127.0.0.1", 3), ("::1", 3), ("10.0.0.9", 0), ("10.0.0.8", 7), ("2001:db8::1", 7)];
        for (ip, max) in cases {
            assert_eq!(limit(&net, ip.parse().expect("an address")), max, "{ip}");
        }
    }
}
