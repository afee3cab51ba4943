"""The style sheet of a theme, made from the design tokens, which reports and charts share.

Rules select widgets by dynamic properties: `role` for text, `kind` for buttons, `surface` for frames and
`precision` for text in a precision's color.
"""

from __future__ import annotations

from dataclasses import fields
from string import Template

from gui.theme.fonts import DISPLAY_FAMILIES, MONO_FAMILIES
from resources.looks import DARK, LIGHT, Palette, PrecisionLook

__all__ = ["DARK", "LIGHT", "Palette", "PrecisionLook"]


def style_sheet(palette: Palette) -> str:
    """Return the application's style sheet for `palette`."""
    named = ((field.name, getattr(palette, field.name)) for field in fields(palette))
    values = {name: color for name, color in named if isinstance(color, str)}
    values["display"] = ", ".join(f'"{family}"' for family in DISPLAY_FAMILIES)
    values["mono"] = ", ".join(f'"{family}"' for family in MONO_FAMILIES)
    parts = (_SURFACES, _TEXT, _BUTTONS, _FIELDS, _VIEWS, _CHROME, _SHOW)
    precisions = "\n".join(
        f'*[precision="{name}"] {{ color: {look.color}; }}\n'
        f'QLineEdit[seen="{name}"] {{ background: {look.tint}; border-color: {look.color}; }}'
        for name, look in palette.precisions.items()
    )
    return "\n".join(Template(part).substitute(values) for part in parts) + precisions


_SURFACES = """
QWidget { color: $text; }
QMainWindow, QDialog, QMessageBox { background: $bg0; }
QFrame[surface="page"] { background: $bg0; border: none; }
QFrame[surface="panel"] { background: $bg1; border: 1px solid $line; border-radius: 8px; }
QFrame[surface="printed"] { background: $bg0; border: none; }
QFrame[surface="side"] { background: $bg1; border: none; border-right: 1px solid $line; }
QFrame[surface="bar"] { background: $bg1; border: none; border-bottom: 1px solid $line; }
QFrame[surface="dock"] { background: $bg1; border: none; border-top: 1px solid $line; }
QFrame[surface="foot"] { background: $bg1; border: none; border-top: 1px solid $line; }
QFrame[surface="chip"] { background: $bg2; border: 1px solid $line; border-radius: 6px; }
QFrame[surface="track"] { background: $bg2; border: 1px solid $line; border-radius: 6px; }
QFrame[surface="field"] { background: $field; border: 1px solid $line2; border-radius: 6px; }
QFrame[surface="divider"] { background: $line; border: none; min-height: 1px; max-height: 1px; }
QFrame[surface="vdivider"] { background: $line2; border: none; min-width: 1px; max-width: 1px; }
QDialog, QMessageBox { background: $bg1; }
"""

_TEXT = """
QLabel { background: transparent; border: none; font-size: 13px; }
QLabel[role="title"] { font-family: $display; font-size: 15px; font-weight: 600; }
QLabel[role="pageTitle"] { font-family: $display; font-size: 24px; font-weight: 600; letter-spacing: -0.2px; }
QLabel[role="failure"] { font-family: $display; font-size: 26px; font-weight: 600; letter-spacing: -0.3px; }
QLabel[role="tried"] { font-size: 13px; }
QLabel[role="outcome"] { font-size: 12px; color: $text2; }
QLabel[role="answer"] { font-family: $display; font-size: 40px; font-weight: 600; letter-spacing: -0.6px; }
QLabel[role="panelTitle"] { font-size: 13px; font-weight: 600; }
QLabel[role="unit"], QLabel[role="hint"], QLabel[role="note"] { font-size: 12px; color: $text3; }
QLabel[role="label"] { font-size: 12px; font-weight: 500; color: $text2; }
QLabel[role="body"] { font-size: 13px; color: $text2; }
QLabel[role="strong"] { font-size: 13px; font-weight: 600; color: $text; }
QLabel[role="legend"] { font-size: 12px; color: $text2; }
QLabel[role="value"] { font-size: 12px; font-weight: 600; }
QLabel[role="ratio"] { font-size: 12px; font-weight: 600; color: $text; }
QLabel[role="stat"] { font-family: $display; font-size: 18px; font-weight: 600; }
QLabel[role="heading"] { font-size: 11px; font-weight: 500; color: $text3; }
QLabel[role="problem"] { font-size: 12px; font-weight: 500; color: $text; }
QLabel[role="empty"] { font-size: 13px; color: $text3; }
QLabel[role="mono"] { font-family: $mono; font-size: 12px; color: $text2; }
QLabel[role="code"] { font-family: $mono; font-size: 12px; padding: 4px 12px; color: $text2; }
QLabel[marked="true"] { background: $bg3; color: $text; }
QLabel:disabled { color: $off; }
"""

_BUTTONS = """
QPushButton, QToolButton {
    background: $field; color: $text; border: 1px solid $line2; border-radius: 6px;
    padding: 0 14px; min-height: 30px; font-size: 13px; font-weight: 500;
}
QToolButton { padding: 0 8px; }
QPushButton:hover, QToolButton:hover { background: $bg2; border-color: $text3; }
QPushButton:pressed, QToolButton:pressed { background: $bg3; }
QPushButton:disabled, QToolButton:disabled { color: $off; border-color: $line; background: $bg1; }
QPushButton[kind="primary"], QPushButton:default {
    background: $pri; color: $prifg; border: 1px solid $pri; font-weight: 600;
}
QPushButton[kind="primary"] { min-height: 42px; }
QPushButton[kind="primary"][low="true"] { min-height: 34px; }
QPushButton[kind="primary"]:hover { background: $pri_hover; border-color: $pri_hover; }
QPushButton[kind="primary"]:pressed { background: $pri_pressed; border-color: $pri_pressed; }
QPushButton[kind="primary"]:disabled { background: $bg3; color: $off; border-color: $bg3; }
QPushButton[kind="secondary"] { min-height: 34px; }
QPushButton[kind="middle"] { min-height: 30px; padding: 0 11px; }
QPushButton[kind="strip"] { min-height: 26px; padding: 0 14px; }
QPushButton[kind="strip"]::menu-indicator { image: none; width: 0; }
QToolButton[kind="strip"] { min-height: 26px; padding: 0 10px; }
QToolButton[kind="icon"], QPushButton[kind="icon"] {
    background: transparent; border: 1px solid transparent; padding: 0;
    min-width: 26px; max-width: 26px; min-height: 26px; max-height: 26px;
}
QToolButton[kind="icon"]:hover, QPushButton[kind="icon"]:hover { background: $bg2; border-color: $line2; }
QToolButton[kind="icon"]::menu-indicator { image: none; }
QToolButton[kind="icon"]:pressed { background: $bg3; }
QToolButton[kind="icon"]:checked { background: $bg2; border-color: $line2; }
QPushButton[kind="toggle"], QToolButton[kind="toggle"] {
    background: transparent; border: 1px solid transparent; border-radius: 4px; color: $text2;
    padding: 0 7px; min-height: 22px; max-height: 22px; font-size: 12px; font-weight: 500;
}
QPushButton[kind="toggle"]:hover, QToolButton[kind="toggle"]:hover { color: $text; border-color: $line2; }
QPushButton[kind="toggle"]:checked, QToolButton[kind="toggle"]:checked {
    background: $bg2; border-color: $line; color: $text;
}
QPushButton[kind="toggle"]:disabled, QToolButton[kind="toggle"]:disabled {
    color: $off; background: transparent;
}
QPushButton[kind="inline"], QToolButton[kind="inline"] {
    background: $bg3; border: none; border-radius: 4px; min-height: 24px; padding: 0 10px; font-size: 12px;
}
QPushButton[kind="link"], QToolButton[kind="link"] {
    background: transparent; border: none; padding: 0; min-height: 16px; color: $text2;
    font-size: 12px; font-weight: 500;
}
QPushButton[kind="link"]:hover, QToolButton[kind="link"]:hover { color: $text; }
QPushButton[kind="link"]:disabled, QToolButton[kind="link"]:disabled { color: $off; }
QPushButton[kind="segment"] {
    background: transparent; border: 1px solid transparent; border-radius: 4px; color: $text2;
    padding: 0 10px; min-height: 24px; font-size: 13px; font-weight: 500;
}
QPushButton[kind="segment"]:hover { color: $text; }
QPushButton[kind="segment"]:checked { background: $selected; border-color: $selected_line; color: $text; }
QPushButton[kind="segment"]:disabled { color: $off; }
QPushButton[kind="app"] {
    background: transparent; border: none; padding: 2px 0 0 0; text-align: left;
    font-family: $display; font-size: 15px; font-weight: 600;
}
QPushButton[kind="tab"], QToolButton[kind="tab"] {
    background: transparent; border: none; border-bottom: 2px solid transparent; border-radius: 0;
    color: $text2; padding: 2px 0 0 0; min-height: 48px; font-size: 13px; font-weight: 500;
}
QPushButton[kind="tab"]:hover, QPushButton[kind="tab"]:checked { color: $text; }
QPushButton[kind="tab"]:checked { border-bottom-color: $pri; font-weight: 600; }
QPushButton[kind="tab"]:disabled { color: $off; }
"""

_FIELDS = """
QLineEdit, QComboBox {
    background: $field; color: $text; border: 1px solid $line2; border-radius: 6px;
    min-height: 30px; padding: 0 11px; font-size: 13px;
    selection-background-color: $pri; selection-color: $prifg;
}
QLineEdit[small="true"], QComboBox[small="true"] { min-height: 26px; }
QLineEdit:hover, QComboBox:hover { border-color: $text3; }
QLineEdit:focus { border-color: $pri; }
QLineEdit[problem="true"], QComboBox[problem="true"] { border: 1px dashed $text; }
QLineEdit[role="command"] { font-family: $mono; font-size: 12px; }
QLineEdit:disabled, QComboBox:disabled { color: $off; border-color: $line; background: $bg1; }
/* a list below the box, not a menu over it: the same for all, whether one can type in them or not */
QComboBox { combobox-popup: 0; }
QComboBox::drop-down { border: none; width: 30px; }
QComboBox[kind="unit"] {
    background: transparent; border: none; min-height: 24px; padding: 0 8px; font-size: 12px;
}
QComboBox[kind="unit"]:focus, QComboBox[kind="unit"]:hover { color: $text; background: $bg3; }
QPushButton[kind="inner"] {
    background: transparent; border: none; border-left: 1px solid $line2; border-radius: 0; color: $text;
    padding: 0 0 0 10px; min-height: 18px; max-height: 18px; font-size: 12px; font-weight: 500;
}
QPushButton[kind="inner"]:hover { color: $text2; }
QComboBox::down-arrow { image: url("ammeter:chevron-$name.svg"); width: 14px; height: 14px; }
QComboBox QLineEdit { background: transparent; border: none; min-height: 0; padding: 0; }
QComboBox QAbstractItemView, QListView[kind="popup"] {
    background: $bg1; border: 1px solid $line2; border-radius: 6px; padding: 4px; outline: none;
    selection-background-color: $bg3; selection-color: $text;
}
/* the height that Qt gives a completer's list leaves 3 px above and below its rows */
QListView[kind="popup"] { padding: 2px 4px; }
QComboBox QAbstractItemView::item, QListView[kind="popup"]::item {
    min-height: 28px; padding: 0 8px; border-radius: 4px;
}
QComboBox QAbstractItemView::item:hover, QComboBox QAbstractItemView::item:selected,
QListView[kind="popup"]::item:hover, QListView[kind="popup"]::item:selected {
    background: $bg3; color: $text;
}
QCheckBox { background: transparent; spacing: 8px; font-size: 13px; }
QCheckBox:disabled { color: $off; }
QCheckBox::indicator, QAbstractItemView::indicator {
    width: 14px; height: 14px; border: 1px solid $line2; border-radius: 4px; background: $field;
}
QCheckBox::indicator:hover, QAbstractItemView::indicator:hover { border-color: $text3; }
QCheckBox::indicator:checked, QAbstractItemView::indicator:checked {
    background: $pri; border-color: $pri; image: url("ammeter:check-$name.svg");
}
QCheckBox::indicator:disabled { border-color: $line; background: $bg1; }
QPlainTextEdit, QTextEdit {
    background: $bg1; border: none; font-size: 13px;
    selection-background-color: $pri; selection-color: $prifg;
}
QFrame[surface="field"] > QPlainTextEdit { background: transparent; }
QPlainTextEdit[role="code"], QTextEdit[role="code"] { font-family: $mono; font-size: 12px; }
"""

_VIEWS = """
QTableView, QTreeView, QListView {
    background: $bg1; border: none; outline: none; gridline-color: $line; font-size: 12px;
    alternate-background-color: $bg1; selection-background-color: $bg2; selection-color: $text;
}
QTableView::item { border: none; border-bottom: 1px solid $line; padding: 0 8px; }
QTableView::item:selected, QTreeView::item:selected, QListView::item:selected {
    background: $bg2; color: $text;
}
QListView[kind="guide"]::item { padding: 0 10px; border-radius: 4px; }
QListView[kind="guide"]::item:disabled { color: $text3; padding-bottom: 4px; }
QTreeView::item { min-height: 26px; padding: 0 8px 0 4px; }
QTableView[kind="tight"]::item { padding: 0 4px; }
QTableView[kind="tight"] QHeaderView::section { padding: 0 4px; }
QHeaderView { background: $bg1; border: none; }
QHeaderView::section {
    background: $bg1; color: $text3; border: none; border-bottom: 1px solid $line;
    padding: 0 8px; min-height: 27px; font-size: 11px; font-weight: 500;
}
QHeaderView::section:hover { color: $text; }
QHeaderView::up-arrow { image: url("ammeter:up-$name.svg"); width: 10px; height: 10px; }
QHeaderView::down-arrow { image: url("ammeter:chevron-$name.svg"); width: 10px; height: 10px; }
QTableCornerButton::section { background: $bg1; border: none; }
QTableView QLineEdit { min-height: 0; padding: 0 6px; border-radius: 4px; font-size: 12px; }
"""

_CHROME = """
QScrollArea { background: transparent; border: none; }
QScrollArea > QWidget > QWidget { background: transparent; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: $line2; border-radius: 3px; margin: 2px; }
QScrollBar::handle:vertical { min-height: 28px; }
QScrollBar::handle:horizontal { min-width: 28px; }
QScrollBar::handle:hover { background: $text3; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QAbstractScrollArea::corner { background: transparent; }
QSplitter::handle { background: transparent; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }
QSplitter::handle:hover { background: $line2; }
QToolTip {
    background: $bg2; color: $text; border: 1px solid $line2; padding: 5px 8px; font-size: 12px;
}
QMenu { background: $bg1; border: 1px solid $line2; border-radius: 6px; padding: 4px; }
QMenu::item {
    padding: 6px 28px 6px 10px; border-radius: 4px; background: transparent; font-size: 13px;
}
QMenu::item:selected { background: $bg3; }
QMenu::item:disabled { color: $off; }
QMenu::separator { height: 1px; background: $line; margin: 4px 6px; }
QTabWidget::pane { border: none; }
QTabBar { background: transparent; }
QTabBar::tab {
    background: transparent; color: $text2; border: none; border-bottom: 2px solid transparent;
    padding: 9px 2px; margin-right: 22px; font-size: 13px; font-weight: 500;
}
QTabBar::tab:hover, QTabBar::tab:selected { color: $text; }
QTabBar::tab:selected { border-bottom-color: $pri; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QDialogButtonBox QPushButton { min-width: 76px; }
"""

_SHOW = """
QFrame[surface="drop"] { background: transparent; border: 2px solid $pri; border-radius: 8px; }
QFrame[surface="popover"] { background: $bg1; border: 1px solid $line2; border-radius: 8px; }
QLabel[role="showPopTitle"], QLabel[role="showTitle"] { font-family: $display; font-weight: 600; }
QLabel[role="showPopText"], QLabel[role="showText"], QLabel[role="showFoot"] { color: $text2; }
QLabel[role="showPopTitle"], QLabel[role="showText"] { font-size: 17px; }
QLabel[role="showPopText"] { font-size: 15px; }
QLabel[role="showTitle"] { font-size: 30px; }
QLabel[role="showNow"], QLabel[role="showFoot"] { font-size: 14px; }
QLabel[role="showNow"] { font-weight: 600; }
QPushButton[kind="show"], QPushButton[kind="showPrimary"] { padding: 0 16px; }
QPushButton[kind="showPrimary"] {
    background: $pri; color: $prifg; border: 1px solid $pri; font-weight: 600;
}
QPushButton[kind="showPrimary"]:hover { background: $pri_hover; border-color: $pri_hover; }
QPushButton[kind="showPrimary"]:pressed { background: $pri_pressed; border-color: $pri_pressed; }
QPushButton[kind="showPrimary"]:disabled { background: $bg3; color: $off; border-color: $bg3; }
QPushButton[kind="showIcon"] { background: $bg2; border: 1px solid $line2; min-width: 30px; padding: 0; }
QPushButton[kind="showIcon"]:hover { background: $bg3; border-color: $text3; }
QPushButton[kind="showLink"] {
    background: transparent; border: none; padding: 0; min-height: 0; color: $text2;
    font-size: 14px; font-weight: 500; text-decoration: underline; text-align: left;
}
QPushButton[kind="showLink"]:hover { color: $text; }
QSlider[kind="plain"] { background: transparent; border: none; }
QSlider[kind="plain"]::groove:horizontal { background: $bg3; border: none; border-radius: 2px; height: 4px; }
QSlider[kind="plain"]::sub-page:horizontal { background: $text2; border-radius: 2px; }
QSlider[kind="plain"]::handle:horizontal {
    background: $pri; border: none; border-radius: 6px; width: 12px; margin: -4px 0;
}
QSlider[kind="show"] { background: transparent; border: none; }
QSlider[kind="show"]::groove:horizontal { background: $bg3; border: none; border-radius: 1px; height: 4px; }
QSlider[kind="show"]::sub-page:horizontal { background: $pri; border-radius: 1px; }
QSlider[kind="show"]::handle:horizontal {
    background: $pri; border: none; border-radius: 7px; width: 14px; height: 14px; margin: -5px 0;
}
"""
