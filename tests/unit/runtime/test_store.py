from __future__ import annotations

import asyncio

from runtime_fakes import WIDGETS, Widget, widget

from grove.runtime.store import Store

Change = tuple[str | None, str | None]


def watched(store: Store[Widget]) -> list[Change]:
    """The versions every handler call was given."""
    changes: list[Change] = []

    def note(old: Widget | None, new: Widget | None) -> None:
        before = None if old is None else old.metadata.resource_version
        changes.append((before, None if new is None else new.metadata.resource_version))

    store.subscribe(note)
    return changes


def synced(*objects: Widget, version: int = 10) -> Store[Widget]:
    store = Store(WIDGETS)
    store.replace(objects, version)
    return store


def test_events_change_the_store_and_tell_the_handlers_in_order() -> None:
    store = synced()
    changes = watched(store)
    store.apply(widget("a", 11))
    store.apply(widget("a", 12))
    store.remove(widget("a", 13))
    assert changes == [(None, "11"), ("11", "12"), ("12", None)]
    assert store.resource_version == "13"
    assert not store.all()


def test_repeated_and_older_events_are_silent() -> None:
    store = synced()
    store.apply(widget("a", 12))
    changes = watched(store)
    store.apply(widget("a", 12))
    store.apply(widget("a", 11))
    assert changes == []
    assert store.resource_version == "12"


def test_our_write_is_visible_at_once_and_its_echo_is_silent() -> None:
    store = synced()
    changes = watched(store)
    store.overlay(widget("a", 11))
    assert "ns/a" in store
    assert store.pending == 1
    store.apply(widget("a", 11))
    assert changes == [(None, "11")]
    assert store.pending == 0


def test_an_answer_that_the_watch_has_overtaken_is_ignored() -> None:
    store = synced()
    store.apply(widget("a", 11))
    store.remove(widget("a", 12))
    changes = watched(store)
    store.overlay(widget("a", 11))
    assert changes == []
    assert store.pending == 0


def test_an_overlay_never_takes_an_object_back() -> None:
    store = synced(widget("a", 5))
    store.overlay(widget("a", 14))
    store.overlay(widget("a", 13))
    store.apply(widget("a", 12))
    held = store.get("ns/a")
    assert held is not None
    assert held.metadata.resource_version == "14"


def test_what_we_deleted_stays_deleted_until_its_event_arrives() -> None:
    store = synced(widget("a", 5))
    changes = watched(store)
    held = store.get("ns/a")
    assert held is not None
    store.overlay_deleted(held)
    store.apply(widget("a", 11))  # a status write that happened before our deletion
    assert store.get("ns/a") is None
    store.remove(widget("a", 12))
    assert changes == [("5", None)]
    assert store.pending == 0


def test_an_object_of_the_same_name_may_follow_the_deleted_one() -> None:
    store = synced(widget("a", 5))
    store.overlay_deleted(widget("a", 5))
    store.overlay(widget("a", 20, uid="second"))
    store.remove(widget("a", 15))
    held = store.get("ns/a")
    assert held is not None
    assert held.metadata.uid == "second"
    store.apply(widget("a", 20, uid="second"))
    assert store.pending == 0


def test_created_and_deleted_before_the_watch_tells_leaves_nothing_behind() -> None:
    store = synced()
    changes = watched(store)
    store.overlay(widget("a", 11))
    store.overlay_deleted(widget("a", 11))
    store.apply(widget("a", 11))
    store.remove(widget("a", 12))
    assert changes == [(None, "11"), ("11", None)]
    assert store.pending == 0
    assert not len(store)


def test_an_overlay_outside_the_selection_leaves_when_the_watch_has_passed_it() -> None:
    store = synced()
    changes = watched(store)
    store.overlay(widget("other", 11))
    store.advance(11)
    assert changes == [(None, "11"), ("11", None)]
    assert store.pending == 0


def test_a_deletion_outside_the_selection_is_forgotten_when_the_watch_has_passed_it() -> None:
    store = synced()
    store.overlay_deleted(widget("other", 11))
    assert store.pending == 1
    store.apply(widget("a", 12))
    assert store.pending == 0


def test_a_late_or_repeated_event_does_not_revive_what_was_deleted() -> None:
    store = synced(widget("a", 5))
    store.remove(widget("a", 12))
    store.apply(widget("a", 11))
    assert store.get("ns/a") is None


def test_an_object_that_left_the_selection_may_come_back() -> None:
    store = synced(widget("a", 5))
    store.remove(widget("a", 12))
    store.apply(widget("a", 13))
    assert "ns/a" in store


def test_an_object_with_a_new_uid_is_a_departure_and_an_arrival() -> None:
    store = synced(widget("a", 5))
    changes = watched(store)
    store.apply(widget("a", 12, uid="second"))
    assert changes == [("5", None), (None, "12")]


def test_a_list_tells_only_what_changed() -> None:
    store = synced(widget("same", 5), widget("changed", 6), widget("gone", 7))
    changes = watched(store)
    store.replace([widget("same", 5), widget("changed", 16), widget("new", 17)], 20)
    assert sorted(changes, key=str) == sorted([("6", "16"), (None, "17"), ("7", None)], key=str)


def test_a_list_older_than_an_overlay_does_not_drop_it_and_a_newer_one_does() -> None:
    store = synced()
    store.overlay(widget("a", 30))
    store.replace([], 25)
    assert "ns/a" in store
    store.replace([], 31)
    assert "ns/a" not in store
    assert store.pending == 0


def test_a_list_older_than_our_deletion_does_not_bring_it_back() -> None:
    store = synced(widget("a", 5))
    store.overlay_deleted(widget("a", 5))
    store.replace([widget("a", 5)], 12)
    assert "ns/a" not in store
    assert store.pending == 1
    store.replace([], 13)
    assert store.pending == 0


def test_an_index_added_later_covers_what_is_there_and_follows_changes() -> None:
    store = synced(widget("a", 5, color="red"), widget("b", 6, color="blue"))
    store.add_index("color", lambda obj: obj.metadata.labels.values())
    assert [obj.metadata.name for obj in store.by_index("color", "red")] == ["a"]
    store.apply(widget("a", 11, color="blue"))
    assert not store.by_index("color", "red")
    assert {obj.metadata.name for obj in store.by_index("color", "blue")} == {"a", "b"}
    store.remove(widget("b", 12))
    assert [obj.metadata.resource_version for obj in store.by_index("color", "blue")] == ["11"]


def test_a_failing_handler_does_not_keep_the_others_from_hearing() -> None:
    store = synced()

    def broken(old: Widget | None, new: Widget | None) -> None:
        raise RuntimeError("broken")

    store.subscribe(broken)
    changes = watched(store)
    store.apply(widget("a", 11))
    assert changes == [(None, "11")]


async def test_synced_is_announced() -> None:
    store = Store(WIDGETS)
    waiting = asyncio.create_task(store.wait_synced())
    assert not store.synced
    store.replace([], 1)
    await waiting
    assert store.synced
    assert store.served


async def test_the_time_from_write_to_echo_is_reported() -> None:
    store = synced()
    lags: list[float] = []
    store.on_lag = lags.append
    store.overlay(widget("a", 11))
    store.apply(widget("a", 11))
    assert len(lags) == 1
    assert lags[0] >= 0


def test_appearance_of_a_missing_resource_is_told_once_with_the_store_filled() -> None:
    store = Store(WIDGETS)
    seen: list[int] = []
    store.when_served(lambda: seen.append(len(store)))
    store.replace([], 5)
    assert seen == [], "it was never missing"
    store.clear()
    store.replace([widget("a", 11)], 12)
    store.replace([widget("a", 11)], 13)
    assert seen == [1]
