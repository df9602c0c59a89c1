//! Rows of the `ethtool` collector: statistics of network drivers, by the names of mlx5 and of AMD's ionic.
//!
//! A pause that an interface receives stops what it sends in that priority, and one that it sends stops its peer. Most
//! priorities never pause: mlx5 has statistics of those with priority flow control alone, ionic of all eight.

crate::metric_rows! {
    NETWORK_PAUSE = Counter Seconds "goodput_network_pause_seconds_total" ["device", "direction", "priority"] {
        "Time for which the peer paused the interface (receive), or the interface its peer (transmit), by priority. Pauses of the whole link (IEEE 802.3x) are not counted. No series before the first pause of a direction and priority.",
        from "ethtool -S, {rx,tx}_prioN_pause_duration or {rx,tx}_pripause_N_1us_count, microseconds", by "ethtool", series "2 per physical interface and priority that paused both ways, at most 16 of 32 interfaces", since "0.3.0"
    }
    NETWORK_PAUSES = Counter None "goodput_network_pauses_total" ["device", "direction", "priority"] {
        "Pause packets received from the peer or sent to it, by priority. No series before the first pause of a direction and priority.",
        from "ethtool -S, {rx,tx}_prioN_pause", by "ethtool", series "2 per physical interface and priority that paused both ways, at most 16 of 32 interfaces", since "0.3.0",
        for "to tell many short pauses from few long ones"
    }
    NETWORK_DISCARDED = Counter None "goodput_network_discarded_packets_total" ["device", "direction"] {
        "Packets that the interface's port discarded for lack of buffers: received ones because the node took them too slowly, those to send because the port was paused.",
        from "ethtool -S, {rx,tx}_discards_phy", by "ethtool", series "2 per physical interface, at most 32", since "0.3.0",
        for "to see which side is too slow where packets are lost: the node that receives, or a port that is paused"
    }
    NETWORK_OVERSIZE = Counter None "goodput_network_oversize_packets_total" ["device"] {
        "Received packets that were dropped because they are longer than the interface's MTU: that of the peer is larger.",
        from "ethtool -S, rx_oversize_pkts_phy", by "ethtool", series "1 per physical interface, at most 32", since "0.3.0"
    }
    NETWORK_STATISTICS_AGE = Gauge Seconds "goodput_network_statistics_age_seconds" ["device"] {
        "Time since the driver was asked for the statistics that are shown: each scrape asks for those of the next one. They are dropped after 300 s.",
        from "own clock", by "ethtool", series "1 per physical interface with statistics, at most 32", since "0.3.0",
        for "to see that a driver takes longer to answer than from one scrape to the next"
    }
}
