"""Tests of what judges the peers: the histories of keys, and the tables.

    python3 -B -m unittest discover -s proof/bench/peers -p "test_*.py"
"""

import json
import unittest

import history
import outages
import report


def seen(*logs):
    """The history of processes, each with the text of its log."""
    read = history.History()
    for number, text in enumerate(logs):
        read.read(number, [f"{line.strip()}\n" for line in text.split(",") if line.strip()])
    return read


class Histories(unittest.TestCase):
    def test_a_key_that_moves_in_order_runs_once(self):
        read = seen("10 begin a 1, 20 work a 1, 30 end a 1", "40 begin a 2, 50 work a 2")
        self.assertEqual([], list(read.doubles()))

    def test_work_after_the_next_begin_is_double_until_the_end(self):
        read = seen("10 begin a 1, 20 work a 1, 50 work a 1, 60 refrain a 1, 70 end a 1", "40 begin a 2, 55 work a 2")
        self.assertEqual([(50, True), (60, False)], [(double.us, double.allowed) for double in read.doubles()])

    def test_a_token_tells_only_if_the_later_one_is_higher(self):
        for tokens, told in ((("1", "2"), True), (("2", "2"), False), (("-", "-"), False)):
            read = seen(f"10 begin a {tokens[0]}, 50 work a {tokens[0]}", f"40 begin a {tokens[1]}")
            self.assertEqual([told], [double.is_told() for double in read.doubles()], tokens)

    def test_a_process_holds_what_it_has_begun_and_not_ended(self):
        read = seen("1 begin a -, 2 begin b -, 3 end a -, 4 begin c -, 5 end c -, 6 begin c -", "7 begin d -")
        self.assertEqual({"b", "c"}, read.held_by(0))

    def test_keys_run_again_in_another_process_after_the_signal(self):
        read = seen("1 begin a -, 2 begin b -, 90 begin b -", "3 begin a -, 60 begin a -, 70 begin a -")
        self.assertEqual({"a": 60}, read.again({"a", "b"}, 0, 50))

    def test_half_a_line_of_a_killed_process_is_left_out(self):
        read = history.History()
        read.read(0, ["1 begin a -\n", "2 wor"])
        self.assertEqual([], read.runs["a"][0].worked)

    def test_a_verdict_has_waits_and_doubles(self):
        stalled = "1000 begin a 1, 9000000 work a 1, 9000500 refrain a 1, 1001 begin b 1, 9000200 refrain b 1"
        read = seen(stalled, "3000000 begin a 2, 4000000 begin b 2")
        figures = history.verdict(read, {"a", "b"}, 0, 1_000_000, 8_999_000)
        self.assertEqual({
            "lost": 2, "again": 2, "again_p50_s": 2.5, "again_max_s": 3.0, "twice": 1, "told": 1, "twice_ms": 1.0,
            "twice_unasked": 2, "told_unasked": 2, "twice_ms_unasked": 1.5,
        }, figures)

    def test_a_verdict_without_another_run_has_no_waits(self):
        figures = history.verdict(seen("1 begin a -"), {"a"}, 0, 2)
        self.assertEqual((1, 0, None), (figures["lost"], figures["again"], figures["again_max_s"]))


OUTAGE = {"lost": 10, "again": 10, "again_p50_s": 2.0, "again_max_s": 3.0, "twice": 0, "told": 0, "twice_unasked": 4, "told_unasked": 4,
          "twice_ms": None, "twice_ms_unasked": 5.0}


class Tables(unittest.TestCase):
    def test_counts_of_outages_are_added_and_waits_are_not(self):
        other = {**OUTAGE, "again_p50_s": 4.0, "again_max_s": 9.0, "twice_unasked": 1, "told_unasked": 0, "twice_ms_unasked": 7.0}
        self.assertEqual(["20", "3.0", "9.0", "0", "–", "–"], outages.columns([OUTAGE, other], ""))
        self.assertEqual(["20", "3.0", "9.0", "5", "7.0", "4"], outages.columns([OUTAGE, other], "_unasked"))

    def test_keys_that_never_ran_again_are_told(self):
        self.assertEqual("2 never", outages.columns([{**OUTAGE, "again": 8}], "")[2])

    def test_a_peer_whose_run_failed_has_dashes(self):
        self.assertEqual(["–"] * 6, outages.columns([], ""))

    def test_a_row_for_each_way_of_writing(self):
        peer = {"name": "one", "writes": ["asks", "waits"]}
        measured = {"jobs": 5, "hold": 6, "keys": 7, "peers": [peer, {"name": "absent", "writes": []}],
                    "runs": [{"peer": "one", "what": "stop", "still_s": 12.4, **OUTAGE}]}
        stops = [line for line in outages.tables(measured) if "stands still for 12 s" in line]
        self.assertEqual([True, True], ["| asks |" in stops[0], "| waits |" in stops[1]])
        self.assertFalse([line for line in outages.tables(measured) if "absent" in line])

    def test_the_published_measurement_still_makes_its_tables(self):
        measured = json.loads(report.RAW.read_text())
        self.assertEqual(report.PAGE.read_text().count(report.BEGIN), 1)
        for peer in measured["peers"]:
            self.assertIn(f"| {peer['name']} |", report.tables(measured))


if __name__ == "__main__":
    unittest.main()
