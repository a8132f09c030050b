"""A program whose ranks ask horovodrun's registry for their places; it prints what becomes of them.

It runs beside a `horovod` that can be imported: the real one in a pod, a stand-in in unit tests.
"""

PROGRAM = '''
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])

from launcher.shim import registering

registering.count_once()

from horovod.runner.elastic.registration import FAILURE, READY, WorkerStateRegistry


class Cluster:
    """What the registry asks of horovodrun: who has a place, who never gets one again."""

    def __init__(self, *hosts):
        self.hosts, self.next, self.blocked, self.is_over = hosts, hosts, set(), False
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.registry = WorkerStateRegistry(self, self)
        self.registry.reset(len(hosts))

    def finished(self):
        return self.is_over

    def stop(self, error_message=None):
        self.is_over = True

    def resume(self):
        self.may_go_on.wait(20)
        self.hosts = [host for host in self.next if host not in self.blocked]
        self.registry.reset(len(self.hosts))

    def is_blacklisted(self, host):
        return host in self.blocked

    def blacklist(self, host):
        time.sleep(0.02)  # it says so in its log until 0.22.1, and others may run meanwhile
        self.blocked.add(host)

    def has_rank_assignment(self, host, slot):
        return host in self.hosts and host not in self.blocked


class Asker:
    """One rank, or the end of one, as horovodrun has a thread for each."""

    def __init__(self, cluster, host, state=READY):
        known = cluster.registry
        record = known.record_ready if state == READY else known.record_failure
        self.thread = threading.Thread(target=self._ask, args=(record, host), daemon=True)
        self.thread.start()
        until = time.monotonic() + 5
        while self.thread.is_alive() and (host, 0) not in known.get_recorded_slots():
            self.thread.join(0.01)
            if time.monotonic() > until:
                break

    def _ask(self, record, host):
        try:
            record(host, 0)
        except RuntimeError:  # its end came after
            pass

    def is_answered(self, seconds=1.0):
        self.thread.join(seconds)
        return not self.thread.is_alive()


def tell(what, is_so):
    print(what + ":", "yes" if is_so else "no", flush=True)


cluster = Cluster("a", "b")
cluster.next = ("a", "b", "c")
end = Asker(cluster, "b", FAILURE)
late = Asker(cluster, "b")
tell("the failed one's rank, which lives, is answered before all have asked", late.is_answered())
first = Asker(cluster, "a")
tell("the others have a ring", first.is_answered(20) and end.is_answered(20))
tell("with the new one", list(cluster.hosts) == ["a", "c"])
tell("and the failed one's rank is answered", late.is_answered(20))
tell("training goes on", not cluster.is_over)

gone = Asker(cluster, "b")
other = Asker(cluster, "x")
tell("who has no place is answered at once", gone.is_answered(20) and other.is_answered(20))

cluster.next = ("a",)
first = Asker(cluster, "a")
again = Asker(cluster, "a")
tell("who asks again counts twice", first.is_answered() or again.is_answered())
last = Asker(cluster, "c")
everybody = [first, again, last]
tell("all are answered once all have asked", all([one.is_answered(20) for one in everybody]))
tell("the one that leaves too", list(cluster.hosts) == ["a"])

for state in (READY, FAILURE):
    alone = Cluster("a", "b")
    ready = Asker(alone, "a")
    end = Asker(alone, "a", FAILURE)
    tell("who fails while it waits counts twice", ready.thread.is_alive() and end.is_answered())
    other = Asker(alone, "b", state)
    tell("then there is a ring", other.is_answered(20) and end.is_answered(20))
    tell("or nobody is left", alone.is_over)

lost, early, missed = ["b%d" % number for number in range(8)], 0, 0
for _ in range(5):
    several = Cluster("a", "c", *lost)
    waiting = [Asker(several, host) for host in ["c", *lost]]
    ends = [Asker(several, host, FAILURE) for host in lost]
    early += ends[0].is_answered(0.3)
    waiting.append(Asker(several, "a"))
    missed += not all([one.is_answered(5) for one in [*waiting, *ends]])
tell("of several that fail at once while they wait any counts twice", early)
tell("all are answered once the last has asked", not missed)

whole = Cluster("a", "c", *lost)
both = [Asker(whole, "a"), Asker(whole, "c")]
waiting = [Asker(whole, host) for host in lost[1:]]
ends = [Asker(whole, host, FAILURE) for host in lost]
tell("several fail as the first of them ends the wait", all([one.is_answered(5) for one in both]))
both = [Asker(whole, "a"), Asker(whole, "c")]
tell("and count for the next", all([one.is_answered(5) for one in [*both, *waiting, *ends]]))
tell("in which none of them is", list(whole.hosts) == ["a", "c"] and not whole.is_over)

slow = Cluster("a", "b")
slow.may_go_on.clear()
both = [Asker(slow, "a"), Asker(slow, "b")]
end = Asker(slow, "b", FAILURE)
end.is_answered(0.3)
slow.may_go_on.set()
tell("a ring is made while one fails", all([one.is_answered(20) for one in both]))
again = Asker(slow, "a")
tell("which counts for the next", again.is_answered(20) and end.is_answered(20))
tell("in which it is not", list(slow.hosts) == ["a"] and not slow.is_over)

small = Cluster("a", "b")
small.next = ("a",)
small.may_go_on.clear()
both = [Asker(small, "a"), Asker(small, "b")]
end = Asker(small, "b", FAILURE)
end.is_answered(0.3)
small.may_go_on.set()
tell("one fails while it loses its place", all([one.is_answered(20) for one in [*both, end]]))
again = Asker(small, "a")
tell("which ends the training of who stays", not again.is_answered(20) or small.is_over)
'''

TOLD = """\
the failed one's rank, which lives, is answered before all have asked: no
the others have a ring: yes
with the new one: yes
and the failed one's rank is answered: yes
training goes on: yes
who has no place is answered at once: yes
who asks again counts twice: no
all are answered once all have asked: yes
the one that leaves too: yes
who fails while it waits counts twice: no
then there is a ring: yes
or nobody is left: no
who fails while it waits counts twice: no
then there is a ring: yes
or nobody is left: yes
of several that fail at once while they wait any counts twice: no
all are answered once the last has asked: yes
several fail as the first of them ends the wait: yes
and count for the next: yes
in which none of them is: yes
a ring is made while one fails: yes
which counts for the next: yes
in which it is not: yes
one fails while it loses its place: yes
which ends the training of who stays: no
"""
