from scripts.stack.machine import listening_inodes, memory_available_mib

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1076 1
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1077 1
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 1078 1
"""


def test_only_listening_sockets_on_the_asked_ports_are_found() -> None:
    assert listening_inodes(TABLE, {8080}) == {"1076": 8080}


def test_available_memory_is_read_in_mib() -> None:
    meminfo = "MemTotal: 999 kB\nMemFree: 1 kB\nMemAvailable:    2097152 kB\n"
    assert memory_available_mib(meminfo) == 2048
