"""The precision map: the model's tree colored by dtype, and the operations of a module."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QSplitter, QWidget

from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.numerics import Operation, PrecisionMap
from engine.protocol.ranges import dtype_label, module_title
from engine.words.numbers import memory_text, number, share_text
from gui.numerics.map_tree import (
    BACKWARD,
    CLASS,
    FORWARD,
    MODULE,
    MOVED_TIP,
    ROOT,
    TIME_TIP,
    DtypeLegend,
    MapRow,
    MapTree,
    SharesDelegate,
    map_rows,
)
from gui.setup.model.tree import FILTERED_BY, Index, TreeView
from gui.widgets import Button, ElidedLabel, label, set_text
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.buttons import FilterEdit
from gui.widgets.messages import OfferedView
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column

KEY = "step.fp32_modules"
_FILTER_TIP = "Filter modules by name. Escape clears the filter."
_EXACT = Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchCaseSensitive
_MOST_UNFOLDED, _LEAST_NAME, _NARROW = 300, 130, 780
"""A narrow tree hides the column of classes. The tooltips of the names show them."""


class MapTreeView(TreeView):
    """The tree of modules of a precision map. `kept` carries (module, whether to keep it in FP32).

    `shown` carries the `MapRow` of the current module, or None.
    """

    kept = Signal(str, bool)
    shown = Signal(object)  # MapRow | None
    widths = (240, 100, 98, 98, 80, 68, 74, 54)

    def __init__(self) -> None:
        super().__init__()
        self.setToolTip("Select a module to keep it in FP32 (Space)")
        self.setAllColumnsShowFocus(True)
        self.proxy.setRecursiveFilteringEnabled(True)
        self.proxy.setFilterRole(FILTERED_BY)
        self.proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setIndentation(16)
        self.header().setStretchLastSection(False)
        self._delegate = SharesDelegate(self)
        for column in (FORWARD, BACKWARD):
            self.setItemDelegateForColumn(column, self._delegate)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._open_menu)

    def show_map(self, rows: Sequence[MapRow], patterns: Sequence[str]) -> None:
        """Show the rows of a map. `patterns` are the modules that the form keeps in FP32."""
        tree = MapTree(rows, patterns, self)
        tree.toggled.connect(self.kept)
        self.show_tree(tree)
        self._fit()

    def go_to(self, name: str) -> None:
        """Select the row of a module, if there is one."""
        hits = self.proxy.match(
            self.proxy.index(0, 0), FILTERED_BY, name or ROOT, 1, _EXACT | Qt.MatchFlag.MatchRecursive
        )
        if hits:
            self.setCurrentIndex(hits[0])
            self.scrollTo(hits[0])

    def map_tree(self) -> MapTree | None:
        tree = self.proxy.sourceModel()
        return tree if isinstance(tree, MapTree) else None

    def row(self, index: Index) -> MapRow | None:
        tree = self.map_tree()
        return tree.row_of(self.proxy.mapToSource(index)) if tree is not None else None

    def show_filtered(self, text: str) -> None:
        """Show the modules whose names contain the text, unfolded."""
        self.proxy.setFilterFixedString(text)
        if text and len(self._visible(QModelIndex(), _MOST_UNFOLDED)) <= _MOST_UNFOLDED:
            self.expandAll()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        width = self.viewport().width()
        self.setColumnHidden(CLASS, width < _NARROW)
        others = sum(self.widths[CLASS + (width < _NARROW) :])
        self.setColumnWidth(MODULE, max(_LEAST_NAME, width - others))

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        self.shown.emit(self.row(current))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space and (row := self.row(self.currentIndex())) is not None:
            self._toggle(row)
            return
        super().keyPressEvent(event)

    def _visible(self, parent: QModelIndex, most: int) -> Sequence[QModelIndex]:
        found: list[QModelIndex] = []
        for place in range(self.proxy.rowCount(parent)):
            index = self.proxy.index(place, 0, parent)
            found += [index, *self._visible(index, most - len(found))]
            if len(found) > most:
                break
        return found

    def _toggle(self, row: MapRow) -> None:
        tree = self.map_tree()
        if tree is not None and tree.is_free(row):
            self.kept.emit(row.name, tree.kept_by(row) is None)

    def _open_menu(self, place: QPoint) -> None:
        row, tree = self.row(self.indexAt(place)), self.map_tree()
        if row is None or tree is None or not row.is_module:
            return
        kept = tree.kept_by(row)
        menu = QMenu(self)
        menu.setAccessibleName(f"Module {row.name}")
        action = menu.addAction("Keep in FP32" if kept is None else "Let AMP choose")
        action.setEnabled(tree.is_free(row))
        action.triggered.connect(lambda: self._toggle(row))
        if not action.isEnabled():
            menu.addAction(f"{kept} keeps it in FP32").setEnabled(False)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.viewport().mapToGlobal(place))


class MapView(OfferedView):
    """Shows the precision map: in which dtypes each module computes, and the casts between them.

    `changes_wanted` carries Changes for the form, and `wanted` asks to record a map.
    """

    changes_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__(
            "Which module computes in which dtype?",
            "AMP computes some operations in 16 bits and leaves others in FP32. The map records one step and "
            "shows each module's dtypes, forward and backward, their cost, and the casts between them.",
            "Record the map",
            "Record one step with the form's settings",
        )
        self._patterns: tuple[str, ...] = ()
        self.filter = FilterEdit("Filter modules", _FILTER_TIP)
        self.legend = DtypeLegend()
        self.facts = ElidedLabel("", "legend")
        self.notes_button = Button("Notes", "toggle", "Show what differs on other devices")
        self.notes = label("", "hint", wraps=True)
        self.notes.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.tree = MapTreeView()
        self.title = ElidedLabel("", "panelTitle")
        self.operations = ResultTable[Operation]("Operations", empty="No operations.")
        self.filter.textChanged.connect(self.tree.show_filtered)
        self.tree.shown.connect(self._show_row)
        self.tree.kept.connect(self._keep)
        self.notes_button.toggled.connect(self._show_notes)
        page, below, split = QWidget(), QWidget(), QSplitter(Qt.Orientation.Vertical)
        in_column(self.title, wide(self.operations), parent=below, margins=(0, 6, 0, 0), spacing=2)
        split.setChildrenCollapsible(False)
        for part, stretch in ((self.tree, 3), (below, 2)):
            split.addWidget(part)
            split.setStretchFactor(split.indexOf(part), stretch)
        split.setSizes([300, 200])
        head = in_row(self.filter, self.legend, wide(self.facts), self.notes_button, spacing=12)
        in_column(head, self.notes, wide(split), parent=page, margins=(0, 8, 0, 0), spacing=8)
        self.addWidget(page)
        self.show_map(None)

    def show_map(self, whole: PrecisionMap | None) -> None:
        """Show a precision map. For None, show the empty state, which explains what a map would show."""
        self.show_page(is_known=whole is not None)
        if whole is None:
            return
        rows = map_rows(whole)
        self.tree.show_map(rows, self._patterns)
        computed = (operation.computed_in for operation in whole.operations)
        self.legend.show_formats([dtype for dtype in dict.fromkeys(computed) if dtype])
        count = sum(operation.count for operation in whole.operations)
        attributed = f"{share_text(whole.attributed_fraction)} attributed"
        facts = f"{count:,} operations in {len(whole.modules):,} modules, {attributed}"
        self.facts.set_whole_text(facts, attributed)
        set_text(self.notes, " ".join(whole.notes))
        self.notes_button.setVisible(bool(whole.notes))
        self._show_notes()
        self.tree.setCurrentIndex(self.tree.proxy.index(0, 0))

    def show_kept(self, patterns: Sequence[str]) -> None:
        """Set the modules and patterns that the form keeps in FP32."""
        self._patterns = tuple(patterns)
        if (tree := self.tree.map_tree()) is not None:
            tree.set_patterns(self._patterns)
            self.tree.viewport().update()

    def show_module(self, name: str) -> None:
        self.filter.clear()
        self.tree.go_to(name)

    def _show_row(self, row: MapRow | None) -> None:
        operations = () if row is None else row.operations
        self.title.set_whole_text("" if row is None else f"Operations of {row.title}")
        has_modules = len({operation.module for operation in operations}) > 1
        self.operations.show_rows(operations, _columns(has_modules=has_modules))

    def _keep(self, name: str, is_kept: bool) -> None:
        rest = [pattern for pattern in self._patterns if pattern != name]
        self.changes_wanted.emit(((KEY, ", ".join([*rest, name] if is_kept else rest)),))

    def _show_notes(self) -> None:
        self.notes.setVisible(self.notes_button.isChecked() and bool(self.notes.text()))


_FORMATS_TIP = "Dtypes of the inputs and of the outputs"
_CAST_TIP = "Whether the operation only changes the dtype, and whether autocast inserted it"


def _columns(*, has_modules: bool) -> list[Column[Operation]]:
    # the names of operations are short
    widest = 240 if has_modules else GROWS
    name = Column[Operation]("Operation", lambda operation: operation.name, width=132, widest=widest)
    module = Column[Operation]("Module", lambda row: module_title(row.module), width=96, widest=GROWS)
    return [name, *([module] if has_modules else []), *_OTHERS]


def _formats_text(operation: Operation) -> str:
    sides = (dict.fromkeys(map(dtype_label, dtypes)) for dtypes in (operation.inputs, operation.outputs))
    return " → ".join(", ".join(side) or "–" for side in sides)


def _cast_text(operation: Operation) -> str:
    return "by autocast" if operation.by_autocast else "yes" if operation.is_cast else ""


_OTHERS: tuple[Column[Operation], ...] = (
    Column("Direction", lambda operation: operation.direction.capitalize(), width=74),
    Column("Dtypes", _formats_text, tip=_FORMATS_TIP, width=116, widest=200),
    number_column("Count", lambda operation: operation.count, "{:,}".format, width=48),
    number_column("Time ms", lambda operation: operation.seconds * 1_000, number, TIME_TIP),
    number_column(
        "Moved", lambda operation: operation.moved_bytes / BYTES_PER_MIB, memory_text, MOVED_TIP, width=74
    ),
    Column("Cast", _cast_text, tip=_CAST_TIP, width=92),
)
