# NAME.png of tools/paper.sh: columns of NAME.csv over its first one.
#     gnuplot -e "name='table4'; title='...'; ylabel='...'; columns='2 3'; names='dense pruned'" batches.gp
# In names, _ is a space. The paper's columns are dashed.
if (!exists('xlabel')) xlabel = 'batch size'
set datafile separator ','
set terminal pngcairo size 800,480 font 'sans,12' noenhanced
set output name.'.png'
set title title
set xlabel xlabel
set ylabel ylabel
if (xlabel eq 'batch size') set logscale x 2
set grid lc rgb '#dddddd'
set key outside right
set offsets graph 0.03, graph 0.03, graph 0.08, graph 0.08
named(i) = system("echo '".word(names, i)."' | tr _ ' '")
plot for [i=1:words(columns)] name.'.csv' every ::1 using 1:(column(word(columns, i) + 0)) \
    with linespoints lw 2 pt 7 dt 1 + (strstrt(word(names, i), 'paper') > 0) lc i title named(i)
