; The installer of Ammeter: for one user, without administrator rights. Built by packaging/build windows, which
; defines VERSION, NUMBERS (the version as four numbers), TREE (the program's folder), KIB (its size) and OUT.
; /S installs silently, /D=FOLDER elsewhere; uninstall.exe /S removes silently.

Unicode true
Target amd64-unicode
RequestExecutionLevel user
ManifestSupportedOS all
ManifestDPIAware true
ManifestLongPathAware true
SetCompressor /SOLID lzma
SetDateSave off

!include MUI2.nsh
!include LogicLib.nsh
!include WinVer.nsh

!define CLASSES "Software\Classes"
!define FILE_TYPE "Ammeter.archive"
!define UNINSTALL "Software\Microsoft\Windows\CurrentVersion\Uninstall\Ammeter"

Name "Ammeter"
OutFile "${OUT}"
InstallDir "$LOCALAPPDATA\Programs\Ammeter"
InstallDirRegKey HKCU "${UNINSTALL}" "InstallLocation"
BrandingText "Ammeter ${VERSION}"
VIProductVersion "${NUMBERS}"
VIAddVersionKey ProductName "Ammeter"
VIAddVersionKey ProductVersion "${VERSION}"
VIAddVersionKey FileVersion "${VERSION}"
VIAddVersionKey FileDescription "Installs Ammeter"
VIAddVersionKey CompanyName "The Ammeter developers"
VIAddVersionKey LegalCopyright "MIT licence"

!define MUI_ICON "${TREE}\ammeter.ico"
!define MUI_UNICON "${TREE}\ammeter.ico"
!define MUI_FINISHPAGE_RUN "$INSTDIR\Ammeter.exe"
!define MUI_FINISHPAGE_RUN_TEXT "Open Ammeter"
!insertmacro MUI_PAGE_LICENSE "${TREE}\licences\LICENSE.txt"
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"

; Moves the installed program aside, which Windows refuses while it runs; $0 is "" where nothing was installed.
!macro MOVE_ASIDE
  StrCpy $0 ""
  ${If} ${FileExists} "$INSTDIR\python\python.exe"
    StrCpy $0 "$INSTDIR\python.old"
    RMDir /r "$0"
    ${Do}
      ClearErrors
      Rename "$INSTDIR\python" "$0"
      ${IfNot} ${Errors}
        ${Break}
      ${EndIf}
      MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "Ammeter is open. Close it, then try again." /SD IDCANCEL IDRETRY +3
        SetErrorLevel 3
        Quit
    ${Loop}
  ${EndIf}
!macroend

!macro TELL_SHELL
  ; SHCNE_ASSOCCHANGED: icons and file types are shown anew
  System::Call "shell32::SHChangeNotify(i 0x08000000, i 0, p 0, p 0)"
!macroend

Function .onInit
  ${IfNot} ${AtLeastWin10}
    MessageBox MB_ICONSTOP "Ammeter needs Windows 10 or newer." /SD IDOK
    SetErrorLevel 2
    Quit
  ${EndIf}
FunctionEnd

Section
  SetShellVarContext current
  !insertmacro MOVE_ASIDE
  SetOutPath "$INSTDIR"
  ClearErrors
  File /r "${TREE}\*.*"
  ${If} ${Errors}
    ; the disk is full, say: what was installed before is put back
    RMDir /r "$INSTDIR\python"
    ${If} $0 != ""
      Rename "$0" "$INSTDIR\python"
    ${EndIf}
    MessageBox MB_ICONSTOP "Ammeter could not be written to $INSTDIR. Make room on the disk, or choose another folder." /SD IDOK
    SetErrorLevel 4
    Quit
  ${EndIf}
  ${If} $0 != ""
    RMDir /r "$0"
  ${EndIf}
  WriteUninstaller "$INSTDIR\uninstall.exe"

  CreateShortcut "$SMPROGRAMS\Ammeter.lnk" "$INSTDIR\Ammeter.exe" "" "$INSTDIR\ammeter.ico" 0 SW_SHOWNORMAL "" "Measures what mixed precision gains"

  WriteRegStr HKCU "${CLASSES}\.ammeter" "" "${FILE_TYPE}"
  WriteRegStr HKCU "${CLASSES}\.ammeter" "Content Type" "application/vnd.ammeter.archive+zip"
  WriteRegStr HKCU "${CLASSES}\${FILE_TYPE}" "" "Runs of Ammeter"
  WriteRegStr HKCU "${CLASSES}\${FILE_TYPE}\DefaultIcon" "" "$INSTDIR\ammeter.ico"
  WriteRegStr HKCU "${CLASSES}\${FILE_TYPE}\shell\open\command" "" '"$INSTDIR\Ammeter.exe" "%1"'

  WriteRegStr HKCU "${UNINSTALL}" "DisplayName" "Ammeter"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayIcon" "$INSTDIR\ammeter.ico"
  WriteRegStr HKCU "${UNINSTALL}" "Publisher" "The Ammeter developers"
  WriteRegStr HKCU "${UNINSTALL}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL}" "EstimatedSize" ${KIB}
  WriteRegDWORD HKCU "${UNINSTALL}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL}" "NoRepair" 1

  ; a path may be longer than NSIS can hold, which would cut it
  nsExec::Exec '"$INSTDIR\python\python.exe" -I "$INSTDIR\user_path.py" add "$INSTDIR\bin"'
  Pop $1
  !insertmacro TELL_SHELL
SectionEnd

Section Uninstall
  SetShellVarContext current
  !insertmacro MOVE_ASIDE
  ${If} $0 != ""
    nsExec::Exec '"$0\python.exe" -I "$INSTDIR\user_path.py" remove "$INSTDIR\bin"'
    Pop $1
    RMDir /r "$0"
  ${EndIf}
  RMDir /r "$INSTDIR\licences"
  RMDir /r "$INSTDIR\bin"
  Delete "$INSTDIR\Ammeter.exe"
  Delete "$INSTDIR\ammeter.ico"
  Delete "$INSTDIR\user_path.py"
  Delete "$INSTDIR\uninstall.exe"
  ; stays where it holds anything else
  RMDir "$INSTDIR"
  Delete "$SMPROGRAMS\Ammeter.lnk"
  DeleteRegKey HKCU "${CLASSES}\${FILE_TYPE}"
  ReadRegStr $1 HKCU "${CLASSES}\.ammeter" ""
  ${If} $1 == "${FILE_TYPE}"
    DeleteRegKey HKCU "${CLASSES}\.ammeter"
  ${EndIf}
  DeleteRegKey HKCU "${UNINSTALL}"
  !insertmacro TELL_SHELL

  ${If} ${FileExists} "$LOCALAPPDATA\Ammeter\engine\*.*"
    MessageBox MB_YESNO|MB_ICONQUESTION "Remove PyTorch too, which Ammeter has downloaded to $LOCALAPPDATA\Ammeter\engine?" /SD IDNO IDNO +2
      RMDir /r "$LOCALAPPDATA\Ammeter\engine"
  ${EndIf}
  ${If} ${FileExists} "$LOCALAPPDATA\Ammeter\*.*"
    MessageBox MB_ICONINFORMATION "Your runs and settings are kept in $LOCALAPPDATA\Ammeter. Delete that folder if you no longer need them." /SD IDOK
  ${EndIf}
SectionEnd
