"""How a page looks: one style sheet, light and dark, on screen and on paper."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfd;--card:#fff;--ink:#1b1f27;--soft:#5b6472;--line:#dfe3ea;--accent:#2458d3;--hot:#ffe9a8;--warm:#fff6da;
--good:#1c7c4a;--warn:#a85b00;--code:#f6f7fa;--bar:#b9c6e4;--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media (prefers-color-scheme:dark){:root{--bg:#12151b;--card:#191d25;--ink:#e4e8ef;--soft:#9aa4b3;--line:#2c323d;--accent:#82a8ff;--hot:#5a4a12;--warm:#39321a;
--good:#5fd097;--warn:#f0b35c;--code:#151922;--bar:#3b4a6b}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main,header.top{max-width:1680px;margin:0 auto;padding:0 24px}
header.top{padding-top:28px}
h1{font-size:26px;line-height:1.2;margin:0 0 2px;font-weight:650;overflow-wrap:anywhere}
h1 code{font-family:var(--mono);font-size:.92em}
h2{font-size:17px;margin:34px 0 10px;font-weight:650}
h3{font-size:13px;margin:0;font-weight:600;color:var(--soft);letter-spacing:.02em}
p{margin:6px 0;max-width:86ch}
p.sub,.soft{color:var(--soft)}
a{color:var(--accent)}
nav.toc{display:flex;flex-wrap:wrap;gap:4px 16px;margin:10px 0 0;font-size:14px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px;min-width:0}
.cards{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(min(430px,100%),1fr));align-items:start}
.tiles{display:grid;gap:10px;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));margin:16px 0 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}
.tile b{display:block;font-size:20px;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600;font-size:13px}
td.n,th.n{font-variant-numeric:tabular-nums;text-align:right}
code,td code{font-family:var(--mono);font-size:13px}
.panes{display:grid;gap:12px;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));align-items:start}
.stack{display:grid;gap:12px;min-width:0}
.pane{background:var(--card);border:1px solid var(--line);border-radius:10px;overflow:hidden;min-width:0}
.pane>header,.pane>summary{padding:8px 12px;border-bottom:1px solid var(--line);display:flex;gap:8px;justify-content:space-between;align-items:baseline}
.pane>header .soft{font-size:13px}
.pane>summary{cursor:pointer;color:var(--soft);font-size:13px;font-weight:600}
.scroll{max-height:68vh;overflow:auto;background:var(--code);position:relative}
.file{position:sticky;top:0;left:0;background:var(--code);color:var(--soft);font:12px/1.6 var(--mono);padding:4px 12px;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
pre{margin:0;padding:6px 0;font:12.5px/1.55 var(--mono);width:max-content;min-width:100%;counter-reset:n}
.l{display:block;padding:0 14px 0 0;white-space:pre;color:inherit;text-decoration:none;border-left:3px solid transparent;scroll-margin:120px}
.l::before{content:attr(data-n);display:inline-block;width:4.2em;padding-right:1.1em;text-align:right;color:var(--soft);opacity:.65;user-select:none}
pre.count .l::before{counter-increment:n;content:counter(n)}
a.l{cursor:pointer}
a.l:focus-visible{outline:2px solid var(--accent);outline-offset:-2px}
.c0{border-left-color:#5b8def}.c1{border-left-color:#e08b3c}.c2{border-left-color:#43a878}.c3{border-left-color:#b56bd6}
.c4{border-left-color:#d9596b}.c5{border-left-color:#2fa4b5}.c6{border-left-color:#a5932f}.c7{border-left-color:#8a8fe0}
a.l:hover,.l.near{background:var(--warm)}
.l.on,a.l.on:hover{background:var(--hot)}
.note{padding:10px 14px;color:var(--soft);font-size:14px}
.keys{font-size:13px;max-width:none;color:var(--soft);margin:4px 0 10px}
kbd{font:11px var(--mono);border:1px solid var(--line);border-bottom-width:2px;border-radius:4px;padding:0 5px;background:var(--card)}
.chart{display:block;width:100%;height:auto;font:12px system-ui,"DejaVu Sans",sans-serif}
.chart text{fill:var(--soft)}
.chart .ink{fill:var(--ink)}
.chart .grid{stroke:var(--line)}
.chart .roof{stroke:var(--accent);stroke-width:2.5}
.chart .under{fill:var(--accent);opacity:.07}
.chart .dot{fill:var(--warn);stroke:var(--card);stroke-width:2}
.chart .drop{stroke:var(--warn);stroke-dasharray:3 3}
.chart .edge{stroke:var(--soft);fill:none;opacity:.75}
.chart .edge.cut{stroke:var(--warn);stroke-width:2;stroke-dasharray:5 3;opacity:1}
.chart .node rect{fill:var(--card);stroke:var(--line)}
.chart .node.leaf rect{stroke:var(--soft);stroke-dasharray:3 2}
.chart .node.kernel rect{stroke-width:2}
.chart a.node{cursor:pointer}
.chart a.node.near rect,.chart a.node:hover rect{fill:var(--warm);stroke:var(--warn)}
.chart a.node.on rect{fill:var(--hot);stroke:var(--warn)}
.chart a.node:focus-visible{outline:2px solid var(--accent)}
.chart .mark{fill:var(--card);stroke:var(--warn);stroke-width:1.5}
.chart .live{opacity:.35}
.chart .again{opacity:.75}
.chart .group{fill:var(--accent);fill-opacity:.07;stroke:var(--accent);stroke-opacity:.5}
.chart .buffer{fill:var(--bar)}
.chart a text{fill:var(--ink)}
.graph{background:transparent;max-height:min(74vh,900px)}
.chart .g0 rect{stroke:#5b8def}.chart .g1 rect{stroke:#e08b3c}.chart .g2 rect{stroke:#43a878}.chart .g3 rect{stroke:#b56bd6}
.chart .g4 rect{stroke:#d9596b}.chart .g5 rect{stroke:#2fa4b5}.chart .g6 rect{stroke:#a5932f}.chart .g7 rect{stroke:#8a8fe0}
.wide{overflow-x:auto}
ol.cuts{padding-left:22px}ol.cuts li{margin:4px 0}
footer{color:var(--soft);font-size:13px;margin:40px 0 28px}
@media print{:root{--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#ccc;--accent:#2458d3;--warn:#a85b00;--bar:#b9c6e4;--code:#fff;--hot:#eee;--warm:#fff}
.scroll{max-height:none;overflow:visible}pre{width:auto}.l{white-space:pre-wrap;overflow-wrap:anywhere}
.panes{grid-template-columns:1fr}.keys,nav.toc{display:none}.card,.pane,.tile{break-inside:avoid}.pane{overflow:visible}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
"""

SCRIPT = """
(function(){
"use strict";
var lines=new Map(),pinned="";
document.querySelectorAll("[data-k]").forEach(function(e){
  e.dataset.k.split(" ").forEach(function(k){if(!lines.has(k))lines.set(k,[]);lines.get(k).push(e);});
});
function clear(name){document.querySelectorAll("[data-k]."+name).forEach(function(e){e.classList.remove(name);});}
function mark(keys,name){clear(name);keys.forEach(function(k){(lines.get(k)||[]).forEach(function(e){e.classList.add(name);});});}
function reveal(origin){
  document.querySelectorAll(".scroll").forEach(function(pane){
    if(origin&&pane.contains(origin))return;
    var first=pane.querySelector(".on");
    if(!first)return;
    var at=first.getBoundingClientRect().top-pane.getBoundingClientRect().top+pane.scrollTop;
    pane.scrollTop=Math.max(0,at-pane.clientHeight/3);
    if(!pane.classList.contains("graph"))return;
    var across=first.getBoundingClientRect().left-pane.getBoundingClientRect().left+pane.scrollLeft;
    pane.scrollLeft=Math.max(0,across-pane.clientWidth/3);
  });
}
function remember(key){
  try{history.replaceState(null,"",key?"#"+key:location.pathname+location.search);}catch(error){/* a page without an address */}
}
function pin(key,origin){
  pinned=lines.has(key)?key:"";
  document.documentElement.dataset.pinned=pinned;
  mark(pinned?[pinned]:[],"on");
  if(pinned)reveal(origin);
}
document.addEventListener("mouseover",function(event){
  var line=event.target.closest&&event.target.closest("[data-k]");
  mark(line?line.dataset.k.split(" ").slice(0,1):[],"near");
});
document.addEventListener("focusin",function(event){
  var line=event.target.closest&&event.target.closest("[data-k]");
  mark(line?line.dataset.k.split(" ").slice(0,1):[],"near");
});
document.addEventListener("click",function(event){
  var line=event.target.closest&&event.target.closest("a[data-k]");
  if(!line||event.ctrlKey||event.metaKey||event.shiftKey)return;
  event.preventDefault();
  line.focus({preventScroll:true});
  var key=line.dataset.k.split(" ")[0];
  key=key===pinned?"":key;
  remember(key);pin(key,line);
});
document.addEventListener("keydown",function(event){
  if(event.key==="Escape"){remember("");pin("");return;}
  var step=event.key==="ArrowDown"?1:event.key==="ArrowUp"?-1:0,line=document.activeElement;
  if(!step||!line||!line.matches("a.l"))return;
  var all=Array.from(line.closest(".scroll").querySelectorAll("a.l")),next=all[all.indexOf(line)+step];
  if(!next)return;
  event.preventDefault();next.focus();
  var key=next.dataset.k.split(" ")[0];
  remember(key);pin(key,next);
});
window.addEventListener("hashchange",function(){pin(decodeURIComponent(location.hash.slice(1)));});
document.querySelectorAll("pre.count").forEach(function(pre){
  var first=pre.querySelector("a.l"),pane=pre.closest(".scroll");  // past helpers and declarations
  if(first&&first.offsetTop>pane.clientHeight/2)pane.scrollTop=first.offsetTop-60;
});
pin(decodeURIComponent(location.hash.slice(1)));
document.documentElement.dataset.ready="yes";
})();
"""
