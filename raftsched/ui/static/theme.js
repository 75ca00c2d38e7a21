// Before anything is painted: the theme that was chosen here. A classic script, because modules wait for the document.
(() => {
  try {
    const theme = localStorage.getItem("raftsched-theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch {
    // without storage the system's theme it is
  }
})();
