#!/usr/bin/env python3
"""A second implementation of relent's decision engine, which proves the golden vectors.

Written from README.md beside this file and sharing no code with the Rust engine, in plain
Python 3.9+. The names are those of the page. `python3 vectors/reference.py` checks every case of
every suite; it exits with 1 if one differs, or if a suite is missing, empty or not understood.
"""

import datetime
import json
import re
import sys
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
U64 = 2**64 - 1
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

# ---- Numbers and documents ---------------------------------------------------------------------


def sat(number):
    """What an unsigned 64-bit integer keeps of a sum, a difference or a product: it saturates."""
    return min(max(number, 0), U64)


def ns(ms):
    return sat(ms * NS_PER_MS)


def thousandths(ratio):
    """A ratio with three exact decimals (read as a Decimal or an int) as a whole number."""
    scaled = Decimal(ratio) * 1000
    if scaled != int(scaled):
        raise ValueError(f"{ratio} has more than three decimals")
    return int(scaled)


def up_to(maximum, roll):
    return roll * (maximum + 1) >> 64


def mix(roll):
    z = (roll + 0x9E3779B97F4A7C15) & U64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & U64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & U64
    return z ^ z >> 31


def read_roll(text):
    if not re.fullmatch(r"0x[0-9a-f]{16}", text):
        raise ValueError(f"not a roll: {text!r}")
    return int(text, 16)


# The fields of each kind of document; those with a question mark may be missing.
FIELDS = {what: fields.split() for what, fields in {
    "suite": "version cases",
    "suite of decisions": "version policies cases",
    "decision case": "name policy history outcome gates nowNs roll decision",
    "retry-after case": "name value date nowSecs waitSecs? ignored?",
    "trace case": "name rules trace",
    "history": """version createdAt deadlineAt previousBackoff attempts repeatable retriedAbove
        spent""",
    "outcome": "success? failure? retryAfterNs? stop?",
    "gates": "estimatedCallNs refuse",
    "policy": """assumeRepeatable attemptTimeoutMs backoff breaker budget classLimits concurrency
        connectTimeoutMs context deadLetter initialDelayMs? jitterRatio? jitterType maxAttempts
        maxDelayMs multiplier? policyId responsePreviewBytes retryAfter retryableFailures? retryableGrpcCodes?
        retryableStatusCodes? scheduleMs? totalBudgetMs waivers""",
    "budget": "burst floorRetries floorWindowMs ratio windowMs",
    "breaker": """callsMin coolDownMaxMs coolDownMs exhaustedFailureRatio exhaustedForMs
        failureRatio probeTimeoutMs rampMs windowMs""",
    "concurrency": "inFlightMax retriesInFlightMax",
    "retryAfter": "honour jitterMaxMs jitterRatio",
    "class limit": "failures maxElapsedMs maxRetries",
    "waiver": "approver expires reason rule",
}.items()}


def check_fields(what, document):
    """Refuses a document of another version, without a required field, or with an unknown one."""
    known = {field.rstrip("?") for field in FIELDS[what]}
    missing = {field for field in FIELDS[what] if field[-1] != "?"} - set(document)
    unknown = set(document) - known
    if missing or unknown:
        raise ValueError(f"{what}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    if "version" in known and document["version"] != 1:
        raise ValueError(f"{what}: unknown version {document['version']!r}")


def check_policy(policy):
    check_fields("policy", policy)
    for part in ("budget", "breaker", "concurrency", "retryAfter"):
        check_fields(part, policy[part])
    for limit in policy["classLimits"]:
        check_fields("class limit", limit)
    for waiver in policy["waivers"]:
        check_fields("waiver", waiver)


def check_decision_case(case):
    check_fields("decision case", case)
    for part in ("history", "outcome", "gates"):
        check_fields(part, case[part])
    if ("success" in case["outcome"]) == ("failure" in case["outcome"]):
        raise ValueError("outcome: one of success and failure")
    if len(case["history"]["spent"]) != 8 or case["history"]["repeatable"] not in range(4):
        raise ValueError("history: spent has eight counters, repeatable is 0 to 3")


# ---- Class -------------------------------------------------------------------------------------

FAULTS = {
    "retryable": """dns connect_refused connect_unreachable connect_timeout connect_reset
        tls_handshake_timeout tls_handshake_reset reset closed_early response_timeout stream_refused
        db_deadlock db_serialization db_pool_exhausted db_too_many_connections db_busy
        db_connection_lost db_unavailable io_interrupted io_timed_out io_file_locked abandoned
        called_off""",
    "permanent": """tls_certificate tls_alert tls_protocol http_parse blocked db_constraint db_query
        io_not_found io_permission_denied io_already_exists io_invalid serialization configuration
        token_revoked""",
    "unknown": "unknown",
}
CLASS_OF_FAULT = {fault: name for name, faults in FAULTS.items() for fault in faults.split()}
RETRYABLE_STATUSES = {408, 429, 500, 502, 503, 504}
RETRYABLE_GRPC = {4, 8, 10, 14}
PERMANENT_STATUSES = {*range(100, 500), 501, 505}
PERMANENT_GRPC = {1, 3, 5, 6, 7, 9, 11, 12, 15, 16}


def by_list(policy, field, default, item, otherwise):
    """The class by the list in force; `otherwise` is that of what no list names."""
    if item in policy.get(field, default):
        return "retryable"
    return "permanent" if item in default else otherwise


def classify(policy, failure):
    kind, _, rest = failure.partition("_")
    if kind == "application" and rest in FAULTS:
        return rest
    if kind == "http" and rest.isdecimal():
        otherwise = "permanent" if int(rest) in PERMANENT_STATUSES else "unknown"
        return by_list(policy, "retryableStatusCodes", RETRYABLE_STATUSES, int(rest), otherwise)
    if kind == "grpc" and rest.isdecimal():
        otherwise = "permanent" if int(rest) in PERMANENT_GRPC else "unknown"
        return by_list(policy, "retryableGrpcCodes", RETRYABLE_GRPC, int(rest), otherwise)
    if failure not in CLASS_OF_FAULT:
        raise ValueError(f"unknown failure {failure!r}")
    default = FAULTS["retryable"].split()
    return by_list(policy, "retryableFailures", default, failure, CLASS_OF_FAULT[failure])


# ---- Backoff and jitter ------------------------------------------------------------------------


def exponential(policy, n, cap):
    delay, multiplier = ns(policy["initialDelayMs"]), thousandths(policy["multiplier"])
    for _ in range(n - 1):
        if delay == 0 or delay >= cap:
            break
        delay = sat(delay * multiplier // 1000)
    return delay


def ceiling_after(policy, attempts, cap):
    n = max(1, min(attempts, policy["maxAttempts"]))
    kind = policy["backoff"]
    if kind == "EXPONENTIAL":
        delay = exponential(policy, n, cap)
    elif kind == "LINEAR":
        delay = sat(ns(policy["initialDelayMs"]) * n)
    elif kind == "FIXED":
        delay = ns(policy["initialDelayMs"])
    elif kind == "SCHEDULE":
        delay = ns(policy["scheduleMs"][min(n, len(policy["scheduleMs"])) - 1])
    else:
        raise ValueError(f"unknown backoff {kind!r}")
    return min(delay, cap)


def draw_backoff(policy, history, roll):
    cap = ns(policy["maxDelayMs"])
    ceiling = ceiling_after(policy, history["attempts"], cap)
    scheduled = policy["backoff"] == "SCHEDULE"
    initial = min(cap, ns(policy["scheduleMs"][0] if scheduled else policy["initialDelayMs"]))
    jitter = policy["jitterType"]
    if jitter == "FULL":
        return up_to(ceiling, roll)
    if jitter == "DECORRELATED":
        high = max(initial, sat((history["previousBackoff"] or initial) * 3))
        return min(cap, sat(initial + up_to(high - initial, roll)))
    if jitter == "EQUAL":
        half = ceiling // 2
        return half + up_to(ceiling - half, roll)
    if jitter == "ADDITIVE":
        return min(cap, sat(ceiling + up_to(initial, roll)))
    if jitter == "PROPORTIONAL":
        f = thousandths(policy["jitterRatio"])
        low = min(ceiling, cap * 1000 // (1000 + f))
        return sat(low + up_to(low * f // 1000, roll))
    if jitter == "NONE":
        return ceiling
    raise ValueError(f"unknown jitterType {jitter!r}")


# ---- The decision ------------------------------------------------------------------------------


def give_up(because):
    return {"do": "give_up", "because": because}


def class_limit_of(policy, failure):
    """The index of the first class limit that names the failure, and the limit; or two None."""
    limits = enumerate(policy["classLimits"])
    return next(((i, limit) for i, limit in limits if failure in limit["failures"]), (None, None))


def reason_to_stop(policy, history, outcome, kind):
    """Steps 2 to 7, which need no time: why to give up, or None."""
    failure, spent = outcome["failure"], history["spent"]
    index, limit = class_limit_of(policy, failure)
    steps = [
        (kind == "permanent" or (kind == "unknown" and spent[1] > 0), "permanent"),
        (history["repeatable"] == 0 and not policy["assumeRepeatable"], "unsafe_to_repeat"),
        (history["retriedAbove"], "retried_above"),
        (outcome.get("stop", False), "refused_by_server"),
        (history["attempts"] >= policy["maxAttempts"], "attempts_exhausted"),
    ]
    return next((reason for applies, reason in steps if applies), None)


def class_limit_reached(policy, history, failure, ends_at):
    spent = history["spent"]
    if failure == "dns" and spent[0] > 0:
        return True
    index, limit = class_limit_of(policy, failure)
    if limit is None:
        return False
    late = sat(ends_at - history["createdAt"]) > ns(limit["maxElapsedMs"])
    return late or spent[2 + index] >= limit["maxRetries"]


def choose_delay(policy, asked, backoff, room, roll):
    """The end of step 8: the delay and its reason; None where the server asks for too long."""
    rules = policy["retryAfter"]
    if asked is None or not rules["honour"]:
        return backoff, "backoff"
    if asked > room:
        return None, "retry_after_too_long"
    if asked <= backoff:
        return backoff, "backoff"
    share = asked * thousandths(rules["jitterRatio"]) // 1000
    spread = min(share, ns(rules["jitterMaxMs"]), room - asked)
    return asked + up_to(spread, mix(roll)), "retry_after"


def next_history(policy, history, failure, kind, backoff):
    spent = list(history["spent"])
    index, _ = class_limit_of(policy, failure)
    grown = [1] if kind == "unknown" else [0] if failure == "dns" else []
    for counter in grown + ([] if index is None else [2 + index]):
        spent[counter] = min(spent[counter] + 1, 255)
    return {**history, "previousBackoff": backoff, "spent": spent}


def decide(policy, history, outcome, gates, now, roll):
    if outcome.get("success", False):
        return {"do": "done"}
    failure = outcome["failure"]
    kind = classify(policy, failure)
    reason = reason_to_stop(policy, history, outcome, kind)
    if reason is not None:
        return give_up(reason)
    created = history["createdAt"]
    deadline = sat(created + ns(policy["totalBudgetMs"]))
    if history["deadlineAt"] is not None:
        deadline = min(deadline, history["deadlineAt"])
    call = min(gates["estimatedCallNs"], ns(policy["attemptTimeoutMs"]))
    room = sat(sat(deadline - now) - call)
    backoff = draw_backoff(policy, history, roll)
    delay, because = choose_delay(policy, outcome.get("retryAfterNs"), backoff, room, roll)
    if delay is None:
        return give_up(because)
    if delay > room or now >= deadline:
        return give_up("deadline_would_pass")
    at = sat(now + delay)
    if class_limit_reached(policy, history, failure, sat(at + call)):
        return give_up("class_limit")
    if gates["refuse"] is not None:
        refusals = {"budget": "budget_exhausted", "breaker_open": "breaker_open"}
        return give_up(refusals[gates["refuse"]])
    following = next_history(policy, history, failure, kind, backoff)
    return {"do": "retry", "atNs": at, "because": because, "next": following}


# ---- Retry-After -------------------------------------------------------------------------------

MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_DAY, _LONG_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH, _TIME = f"(?P<month>{'|'.join(MONTHS)})", "(?P<h>[0-9]{2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})"
DATE_FORMS = [re.compile(form) for form in (
    f"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
    f"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
    f"{_DAY} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})",
)]


def full_year(digits, now):
    if len(digits) == 4:
        return int(digits)
    this_year = 1970 + now // 31_556_952
    year = this_year - this_year % 100 + int(digits)
    return year - 100 if year > this_year + 50 else year


def read_date(text, now):
    """The time that an HTTP date names, in seconds since 1970; None if it is not one."""
    found = next(filter(None, (form.fullmatch(text) for form in DATE_FORMS)), None)
    if found is None:
        return None
    year = full_year(found["year"], now)
    hour, minute, second = map(int, found.group("h", "m", "s"))
    if year < 1970 or hour > 23 or minute > 59 or second > 60:
        return None
    try:
        day = datetime.date(year, MONTHS.index(found["month"]) + 1, int(found["day"]))
    except ValueError:
        return None
    days = (day - datetime.date(1970, 1, 1)).days
    return ((days * 24 + hour) * 60 + minute) * 60 + second


def read_retry_after(value, date, now):
    value = value.strip(" \t")
    if re.fullmatch("[0-9]+", value):
        return {"waitSecs": sat(int(value))}
    until = read_date(value, now)
    if until is None:
        return {"ignored": "malformed"}
    sent = None if date is None else read_date(date.strip(" \t"), now)
    wait = sat(until - (now if sent is None else sent))
    return {"waitSecs": wait} if wait > 0 else {"ignored": "past"}


# ---- Budget and breaker ------------------------------------------------------------------------

SIGNALS = ("alive", "failing", "no_signal")


class Slots:
    """A window of `count` slots aligned to time 0, each with two counters; time never goes back."""

    def __init__(self, count, window_ms):
        self.count, self.width = count, ns(window_ms) // count
        self.running, self.counters = 0, {}

    def move_to(self, now):
        self.running = max(self.running, now // self.width)
        self.counters = {s: c for s, c in self.counters.items() if s > self.running - self.count}

    def add(self, now, first, second):
        self.move_to(now)
        counter = self.counters.setdefault(self.running, [0, 0])
        counter[0] += first
        counter[1] += second

    def totals(self, now):
        self.move_to(now)
        return [sum(counter[which] for counter in self.counters.values()) for which in (0, 1)]

    def clear(self):
        self.counters = {}


class Budget:
    def __init__(self, rules):
        check_fields("budget", rules)
        self.ratio, self.floor_retries = thousandths(rules["ratio"]), rules["floorRetries"]
        self.floor_window = ns(rules["floorWindowMs"])
        self.step = self.floor_window // max(1, self.floor_retries)
        self.slots = Slots(30, rules["windowMs"])
        self.saved = self.saved_max = rules["burst"] * 1000
        self.whole_at = self.failures_in_a_row = 0
        self.granted = []  # the slots of the granted retries that were not given back

    def first(self, now):
        self.slots.add(now, 1, 0)
        self.saved = min(self.saved + self.ratio, self.saved_max)

    def retry(self, now):
        first, retries = self.slots.totals(now)
        by_ratio = (retries + 1) * 1000 <= first * self.ratio and self.saved >= 1000
        by_floor = (self.floor_retries > 0 and self.failures_in_a_row < 5
                    and sat(sat(self.whole_at - now) + self.step) <= self.floor_window)
        if not (by_ratio or by_floor):
            return False
        self.saved = max(0, self.saved - 1000)
        self.whole_at = min(sat(max(self.whole_at, now) + self.step), sat(now + self.floor_window))
        self.slots.add(now, 0, 1)
        self.granted.append(self.slots.running)
        return True

    def give_back(self, now):
        self.slots.move_to(now)
        slot = self.granted.pop()
        if slot in self.slots.counters:
            self.slots.counters[slot][1] -= 1
        self.saved = min(self.saved + 1000, self.saved_max)
        self.whole_at = sat(self.whole_at - self.step)

    def ended(self, signal):
        if signal != "no_signal":
            self.failures_in_a_row = 0 if signal == "alive" else self.failures_in_a_row + 1


def replay_budget(budget, now, event, *expected):
    """Applies one event of a trace and returns what the engine answers, as the trace has it."""
    if event == "retry" and len(expected) == 1:
        return [budget.retry(now)]
    if event in ("first", "give_back") and not expected:
        getattr(budget, event)(now)
    elif event in SIGNALS and not expected:
        budget.ended(event)
    else:
        raise ValueError(f"unknown event {[event, *expected]}")
    return []


class Breaker:
    def __init__(self, rules):
        check_fields("breaker", rules)
        self.rules, self.ramp = rules, ns(rules["rampMs"])
        self.is_now, self.until, self.since, self.credit = "closed", 0, 0, 0
        self.trips = 0
        self.slots = Slots(10, rules["windowMs"])
        self.exhausted_since = self.exhausted_last = None

    def admit(self, now):
        if self.is_now in ("open", "half_open"):
            if now < self.until:
                return self.until
            self.is_now, self.until = "half_open", sat(now + ns(self.rules["probeTimeoutMs"]))
            return "probe"
        if self.is_now == "ramping":
            return self.admit_ramping(now)
        return "normal"

    def admit_ramping(self, now):
        passed = sat(now - self.since)
        if passed >= self.ramp:
            self.is_now, self.trips = "closed", 0
            return "normal"
        share = min(1000, 100 + 900 * (passed // 1000) // max(1, self.ramp // 1000))
        self.credit += share
        if self.credit >= 1000:
            self.credit -= 1000
            return "normal"
        return sat(now + self.ramp // 1000)

    def record(self, now, admission, signal, roll):
        if self.is_now in ("closed", "ramping"):
            if signal == "no_signal":
                return
            self.slots.add(now, 1, 1 if signal == "failing" else 0)
            if signal == "failing" and self.too_many_failures(now, "failureRatio"):
                self.open(now, roll)
        elif self.is_now == "half_open" and admission == "probe":
            if signal == "alive":
                self.slots.clear()
                self.is_now, self.since, self.credit = "ramping", now, 0
            elif signal == "failing":
                self.open(now, roll)
            else:
                self.until = now

    def exhausted(self, now, roll):
        if self.is_now not in ("closed", "ramping"):
            return
        if self.exhausted_last is None or sat(now - self.exhausted_last) > NS_PER_S:
            self.exhausted_since = now
        self.exhausted_last = now
        lasted = sat(now - self.exhausted_since) >= ns(self.rules["exhaustedForMs"])
        if lasted and self.too_many_failures(now, "exhaustedFailureRatio"):
            self.open(now, roll)

    def too_many_failures(self, now, ratio):
        calls, failures = self.slots.totals(now)
        enough = calls >= self.rules["callsMin"]
        return enough and failures * 1000 >= calls * thousandths(self.rules[ratio])

    def open(self, now, roll):
        d = min(sat(ns(self.rules["coolDownMs"]) << self.trips), ns(self.rules["coolDownMaxMs"]))
        self.is_now, self.until = "open", sat(now + d - up_to(d // 4, roll))
        self.trips += 1
        self.slots.clear()
        self.exhausted_since = self.exhausted_last = None

    def state(self, now):
        if self.is_now == "open":
            return "open" if now < self.until else "half_open"
        return "half_open" if self.is_now == "half_open" else "closed"


def replay_breaker(breaker, now, event, *rest):
    """Applies one event of a trace and returns it as the engine has it, its answer included."""
    if event in ("admit", "state") and len(rest) == 1:
        return [getattr(breaker, event)(now)]
    if event == "exhausted" and len(rest) == 1:
        breaker.exhausted(now, read_roll(rest[0]))
    elif event == "record" and rest[0] in ("normal", "probe") and rest[1] in SIGNALS:
        admission, signal, roll = rest
        breaker.record(now, admission, signal, read_roll(roll))
    else:
        raise ValueError(f"unknown event {[event, *rest]}")
    return list(rest)


# ---- The suites --------------------------------------------------------------------------------


def differences(expected, computed, where=""):
    """Each line that tells where two JSON values differ; true is not 1 here."""
    if json.dumps(expected, sort_keys=True) == json.dumps(computed, sort_keys=True):
        return []
    return [f"{where}expected {json.dumps(expected)}, computed {json.dumps(computed)}"]


def check_decide(document, case):
    check_decision_case(case)
    policy, roll = document["policies"][case["policy"]], read_roll(case["roll"])
    history, outcome, gates = case["history"], case["outcome"], case["gates"]
    computed = decide(policy, history, outcome, gates, case["nowNs"], roll)
    return differences(case["decision"], computed)


def check_retry_after(_document, case):
    check_fields("retry-after case", case)
    expected = {field: case[field] for field in ("waitSecs", "ignored") if field in case}
    return differences(expected, read_retry_after(case["value"], case["date"], case["nowSecs"]))


def check_trace(start, replay):
    def check(_document, case):
        check_fields("trace case", case)
        if not case["trace"]:
            raise ValueError("the trace is empty")
        engine, found = start(case["rules"]), []
        for index, (now, event, *rest) in enumerate(case["trace"]):
            where = f"trace[{index}] {event} at {now}: "
            found += differences(rest, replay(engine, now, event, *rest), where)
        return found
    return check


# The suites that must be there; a further one in decide/ is checked as well.
DECIDE = """backoff classification edges gates idempotency jitter limits lives retry-after
    saturation""".split()
SUITES = {
    "retry-after.json": check_retry_after,
    "budget.json": check_trace(Budget, replay_budget),
    "breaker.json": check_trace(Breaker, replay_breaker),
}
BAD_DOCUMENT = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


def read_suite(path):
    document = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    check_fields("suite" if path.parent == HERE else "suite of decisions", document)
    for policy in document.get("policies", {}).values():
        check_policy(policy)
    if not document["cases"]:
        raise ValueError("no cases")
    return document


def run_case(check, document, case):
    try:
        found = check(document, case)
    except BAD_DOCUMENT as error:
        found = [f"{type(error).__name__}: {error}"]
    for line in found:
        print(f"  FAILED {case.get('name')}: {line}")
    return not found


def run_suite(name, check):
    """Checks one file: how many cases passed and failed. An unreadable file is one that failed."""
    try:
        document = read_suite(HERE / name)
        cases = document["cases"]
        print(f"{name}: {len(cases)} cases")
        passed = sum(run_case(check, document, case) for case in cases)
        return passed, len(cases) - passed
    except BAD_DOCUMENT as error:
        print(f"{name}: FAILED {type(error).__name__}: {error}")
        return 0, 1


def main():
    stems = sorted({*DECIDE, *(path.stem for path in HERE.glob("decide/*.json"))})
    suites = {**{f"decide/{stem}.json": check_decide for stem in stems}, **SUITES}
    results = [run_suite(name, check) for name, check in suites.items()]
    passed, failed = (sum(column) for column in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
