"""The precision map: the model's tree colored by dtype, and the operations of a module."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QSplitter, QWidget

from engine.experiment.value import BYTES_PER_MIB
from engine.numerics.map_rows import ROOT, MapRow, map_rows
from engine.protocol.numerics import Numerics, Operation, PrecisionMap
from engine.protocol.ranges import dtype_label, module_title
from gui.numerics.map_tree import (
    BACKWARD,
    CLASS,
    FORWARD,
    MODULE,
    MOVED_TIP,
    TIME_TIP,
    DtypeLegend,
    MapTree,
    SharesDelegate,
    alike,
)
from gui.setup.model.tree import FILTERED_BY, Index, TreeView
from gui.widgets import ElidedLabel
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.buttons import FilterEdit
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column, spaced

KEY = "step.fp32_modules"
_FILTER_TIP = "Filter modules by name. Escape clears the filter."
_EXACT = Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchCaseSensitive
_LEAST_NAME, _WIDEST_BARS, _LEAST_HEIGHT = 130, 400, 300


class MapTreeView(TreeView):
    """The tree of modules of a precision map. `kept` carries (module, whether to keep it in FP32).

    `shown` carries the `MapRow` of the current module, or None.
    """

    kept = Signal(str, bool)
    shown = Signal(object)  # MapRow | None

    def __init__(self) -> None:
        super().__init__()
        self.setToolTip("Select a module to keep it in FP32 (Space)")
        self.setAllColumnsShowFocus(True)
        self.proxy.setRecursiveFilteringEnabled(True)
        self.proxy.setFilterRole(FILTERED_BY)
        self.proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setIndentation(16)
        self._widths: list[int] = []
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
        self._widths = tree.widths()
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
        if text:
            self.expandAll()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Show all columns in full. Bars get the room that is left, and a narrow tree hides the classes."""
        tree = self.map_tree()
        if tree is None:
            return
        widths, room = list(self._widths), self.viewport().width()
        is_narrow = sum(widths) > room
        self.setColumnHidden(CLASS, is_narrow)
        free = room - sum(widths) + (widths[CLASS] if is_narrow else 0)
        widths[MODULE] = max(_LEAST_NAME, widths[MODULE] + min(0, free))
        for column in (FORWARD, BACKWARD):
            widths[column] += min(max(0, free) // 2, _WIDEST_BARS)
        for column, width in enumerate(widths):
            self.setColumnWidth(column, width)

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        self.shown.emit(self.row(current))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space and (row := self.row(self.currentIndex())) is not None:
            self._toggle(row)
            return
        super().keyPressEvent(event)

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


class MapView(QWidget):
    """Shows the precision map: in which dtypes each module computes, and the casts between them.

    `changes_wanted` carries Changes for the form.
    """

    changes_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self._map: PrecisionMap | None = None
        self._patterns: tuple[str, ...] = ()
        self.filter = FilterEdit("Filter modules", _FILTER_TIP)
        self.legend = DtypeLegend()
        self.tree = MapTreeView()
        self.title = ElidedLabel("", "panelTitle")
        self.operations = ResultTable[Operation]("Operations", empty="No operations.")
        self.filter.textChanged.connect(self.tree.show_filtered)
        self.tree.shown.connect(self._show_row)
        self.tree.kept.connect(self._keep)
        below, split = QWidget(), QSplitter(Qt.Orientation.Vertical)
        in_column(self.title, wide(self.operations), parent=below, margins=(0, 6, 0, 0), spacing=2)
        split.setChildrenCollapsible(False)
        for part, stretch in ((self.tree, 3), (below, 2)):
            split.addWidget(part)
            split.setStretchFactor(split.indexOf(part), stretch)
        split.setSizes([300, 200])
        head = in_row(self.filter, self.legend, Stretch(1), spacing=12)
        in_column(head, wide(split), parent=self, spacing=8)

    def show_answer(self, numerics: Numerics) -> None:
        """Show the map of a numerics study. Nothing is filled again unless it has changed."""
        whole = numerics.results.map
        if whole is None or whole is self._map:
            return
        self._map = whole
        self.tree.show_map(map_rows(whole), self._patterns)
        computed = (operation.computed_in for operation in whole.operations)
        self.legend.show_formats([dtype for dtype in dict.fromkeys(computed) if dtype])
        self.tree.setCurrentIndex(self.tree.proxy.index(0, 0))

    def sizeHint(self) -> QSize:
        # a lower page scrolls
        return QSize(640, _LEAST_HEIGHT)

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
        self.operations.show_rows(operations, _columns(operations))

    def _keep(self, name: str, is_kept: bool) -> None:
        rest = [pattern for pattern in self._patterns if pattern != name]
        self.changes_wanted.emit(((KEY, ", ".join([*rest, name] if is_kept else rest)),))


_FORMATS_TIP = "Dtypes of the inputs and of the outputs"
_CAST_TIP = "Whether the operation only changes the dtype, and whether autocast inserted it"


def _columns(operations: Sequence[Operation]) -> list[Column[Operation]]:
    milliseconds = alike(operation.seconds * 1_000 for operation in operations)
    mib = alike(operation.moved_bytes / BYTES_PER_MIB for operation in operations)
    has_modules = len({operation.module for operation in operations}) > 1
    # the names of operations are short
    widest = 240 if has_modules else GROWS
    name = Column[Operation]("Operation", lambda operation: operation.name, width=132, widest=widest)
    module = Column[Operation]("Module", lambda row: module_title(row.module), width=96, widest=GROWS)
    columns = [
        name,
        *([module] if has_modules else []),
        Column("Direction", lambda operation: operation.direction.capitalize(), width=74),
        Column("Dtypes", _formats_text, tip=_FORMATS_TIP, width=116, widest=200),
        number_column("Count", lambda operation: operation.count, "{:,}".format, width=48),
        number_column("Time, ms", lambda operation: operation.seconds * 1_000, milliseconds, TIME_TIP),
        number_column("Moved, MiB", lambda row: row.moved_bytes / BYTES_PER_MIB, mib, MOVED_TIP, width=82),
        Column("Cast", _cast_text, tip=_CAST_TIP, width=92),
    ]
    return list(spaced(columns))


def _formats_text(operation: Operation) -> str:
    sides = (dict.fromkeys(map(dtype_label, dtypes)) for dtypes in (operation.inputs, operation.outputs))
    return " → ".join(", ".join(side) or "–" for side in sides)


def _cast_text(operation: Operation) -> str:
    return "by autocast" if operation.by_autocast else "yes" if operation.is_cast else ""
