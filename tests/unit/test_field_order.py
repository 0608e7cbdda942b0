"""A stored answer is shown as it was first shown."""

from outbound.api.field_order import in_order


def test_fields_stand_as_the_description_lists_them_and_unknown_ones_last() -> None:
    shuffled = {
        "later": 1,
        "to": [{"name": None, "address": "a@x.example"}],
        "from": {"name": "B", "address": "b@x.example"},
        "metadata": {"z": "1", "a": "2"},
        "deliveries": [{"field": "to", "status": "queued", "address": "a@x.example"}],
        "id": "msg_1",
    }

    ordered = in_order(shuffled)

    assert ordered == shuffled
    assert list(ordered) == ["id", "from", "to", "metadata", "deliveries", "later"]
    assert list(ordered["to"][0]) == ["address", "name"]
    assert list(ordered["from"]) == ["address", "name"]
    assert list(ordered["deliveries"][0]) == ["address", "field", "status"]
    assert list(ordered["metadata"]) == ["a", "z"]


def test_what_is_null_stays_null() -> None:
    assert in_order({"deliveries": None, "from": None}) == {
        "from": None,
        "deliveries": None,
    }
